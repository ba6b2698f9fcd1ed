#include "jobs/checkpoint/training_state.h"

namespace longwave {

Json to_json(const TrainingState& state) {
  return {{"updates", state.updates},
          {"accepted", state.guard.accepted},
          {"norm_average", state.guard.norm_average},
          {"bad_in_a_row", state.guard.bad_in_a_row},
          {"seconds", state.seconds}};
}

TrainingState training_state(const CheckpointFacts& facts) {
  TrainingState state;
  state.step = facts.step;
  read_fields(facts.training, manifest_name, [&](const Json& json) {
    state.updates = json.at("updates").get<std::int64_t>();
    state.guard.accepted = json.at("accepted").get<std::int64_t>();
    state.guard.norm_average = json.at("norm_average").get<double>();
    state.guard.bad_in_a_row = json.at("bad_in_a_row").get<std::int64_t>();
    state.seconds = json.at("seconds").get<double>();
  });
  return state;
}

}  // namespace longwave
