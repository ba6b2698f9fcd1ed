// What train and evaluate stand on: ranks, mesh, device, data and model, set up from a configuration in the order in which
// things can be wrong, and checked on all ranks together before anything is written.
#pragma once

#include <memory>
#include <string>

#include "core/model/transformer.h"
#include "jobs/config/config.h"
#include "jobs/dataset.h"
#include "jobs/device.h"
#include "jobs/run_directory/provenance.h"
#include "parallel/mesh.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "parallel/tensor_parallel.h"

namespace longwave {

struct Job {
  // Collective. Throws SharedError.
  Job(MpiEnvironment& environment, Communicator& control_ranks, Config wanted);

  bool first() const { return control.rank() == 0; }
  Backend& backend() const { return *device.backend; }
  RunFacts facts(std::vector<std::string> command_line) const;

  MpiEnvironment& mpi;
  Communicator& control;
  Config config;  // finished: mesh, device, precision and vocabulary are what they are
  ChosenDevice device;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Communicator> tensors;  // of device memory; null where that is host memory
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<MeshTensorGroup> shards;
  std::unique_ptr<Transformer> model;  // values allocated, not initialised
};

}  // namespace longwave
