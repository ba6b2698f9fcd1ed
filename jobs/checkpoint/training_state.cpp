#include "jobs/checkpoint/training_state.h"

namespace longwave {

Json to_json(const TrainingState& state) {
  return {{"updates", state.updates}, {"bad_in_a_row", state.bad_in_a_row}, {"seconds", state.seconds}};
}

TrainingState training_state(const CheckpointFacts& facts) {
  TrainingState state;
  state.step = facts.step;
  read_fields(facts.training, manifest_name, [&](const Json& json) {
    state.updates = json.at("updates").get<std::int64_t>();
    state.bad_in_a_row = json.at("bad_in_a_row").get<std::int64_t>();
    state.seconds = json.at("seconds").get<double>();
  });
  return state;
}

}  // namespace longwave
