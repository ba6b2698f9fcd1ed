#include "jobs/job.h"

#include "jobs/same_job.h"
#include "parallel/agreement.h"
#include "parallel/device_communicator.h"

namespace longwave {

Job::Job(MpiEnvironment& environment, Communicator& control_ranks, Config wanted)
    : mpi(environment), control(control_ranks), config(std::move(wanted)) {
  MeshShape shape;
  together(control, [&] {
    data = std::make_unique<Dataset>(config.data, config.model.vocabulary);
    finish_config(config, control.size(), data->vocabulary());
    shape = resolve_mesh(control.size(), config.parallel.tensor, config.parallel.data, config.model, config.train.batch);
  });
  refuse_unlike_configs(control, config, mpi.host());
  refuse_unlike_data(control, *data, mpi.host());
  device = choose_common_device(config, control, mpi.local_size(), mpi.local_rank());
  together(control, [&] { refuse_shared_devices(control, device, mpi.host()); });
  together(control, [&] { tensors = make_device_communicator(control, *device.backend); });
  mesh = std::make_unique<Mesh>(control, tensors ? *tensors : control, shape);
  shards = std::make_unique<MeshTensorGroup>(mesh->tensor(), config.parallel.sequence);
  together(control, [&] {
    const TransformerOptions options{device.compute, config.run.seed, 0};
    model = std::make_unique<Transformer>(config.model, config.position, options, device.backend.get(), *shards);
  });
}

RunFacts Job::facts(std::vector<std::string> command_line) const {
  RunFacts facts;
  facts.command_line = std::move(command_line);
  facts.hosts = mpi.hosts();
  facts.data = mesh->shape().data;
  facts.tensor = mesh->shape().tensor;
  facts.device = device.note;
  facts.precision = name_of(device.compute);
  return facts;
}

}  // namespace longwave
