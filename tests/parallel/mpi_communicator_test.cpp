#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "parallel/mpi/mpi_check.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "tests/parallel/communicator_suite.h"

namespace longwave {
namespace {

CommunicatorUnderTest host_memory(const std::string& name, const MpiLimits& limits) {
  const auto copy = [](void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  };
  return {name, [limits] { return MpiCommunicator::world(limits); }, [](std::size_t bytes) { return std::malloc(bytes); },
          [](void* data) { std::free(data); }, copy, copy};
}

const auto name_of_case = [](const testing::TestParamInfo<CommunicatorUnderTest>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorSuite,
                         testing::Values(host_memory("Whole", {}),
                                         host_memory("InMessagesOf1000", {.message_elements = 1000}),
                                         host_memory("AlwaysTwoStages", {.message_elements = 7777, .one_stage_bytes = 0})),
                         name_of_case);

TEST(MpiErrors, NameTheCallTheRankAndThePlace) {
  auto world = MpiCommunicator::world();
  float value = 0;
  try {
    world->send(&value, 1, Element::f32, world->size() + 5);
    FAIL() << "a message to a rank that does not exist was sent";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ExitCode::bug);
    EXPECT_NE(text.find("MPI_Isend on rank " + std::to_string(world->rank())), std::string::npos) << text;
    EXPECT_NE(text.find("MPI_ERR_RANK"), std::string::npos) << text;
    EXPECT_NE(text.find("parallel/mpi/mpi_communicator.cpp:"), std::string::npos) << text;
  }
}

TEST(MpiErrors, AMessageLongerThanItsBufferIsABug) {
  auto world = MpiCommunicator::world();
  if (world->size() == 1) return;
  std::vector<float> data(200);
  if (world->rank() == 0) world->send(data.data(), 200, Element::f32, 1);
  if (world->rank() == 1) {
    try {
      world->recv(data.data(), 100, Element::f32, 0);
      FAIL() << "a truncated message was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bug);
      EXPECT_NE(std::string(error.what()).find("MPI_ERR_TRUNCATE"), std::string::npos) << error.what();
    }
  }
  world->barrier();
}

TEST(MpiErrors, WhatMpiCannotDoAnyMoreMeansALostRank) {
  try {
    check_mpi(MPI_ERR_OTHER, "MPI_Testall", "file.cpp", 7);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::lost);
  }
}

// Restores an environment variable that a test changes.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~EnvironmentVariable() { set(had_ ? old_.c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value == nullptr) {
      unsetenv(name_);
    } else {
      setenv(name_, value, 1);
    }
  }
  const char* name_;
  std::string old_;
  bool had_ = std::getenv(name_) != nullptr;
};

TEST(Launch, RefusesManyProgramsThatAreEachRankZeroOfOne) {
  EnvironmentVariable open_mpi("OMPI_COMM_WORLD_SIZE", "2");
  EnvironmentVariable slurm("SLURM_NTASKS", nullptr);
  EXPECT_THROW(check_launch(1), Error);
  EXPECT_NO_THROW(check_launch(2));
}

TEST(Launch, RefusesSrunWithoutPmi) {
  EnvironmentVariable open_mpi("OMPI_COMM_WORLD_SIZE", nullptr);
  EnvironmentVariable slurm("SLURM_NTASKS", "4");
  try {
    check_launch(1);
    FAIL() << "four programs would write one directory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_NE(std::string(error.what()).find("srun --mpi=pmix"), std::string::npos);
  }
}

TEST(Launch, RefusesAStepOfSeveralTasksWithoutPmiBeforeMpiStarts) {
  EnvironmentVariable step("SLURM_STEP_NUM_TASKS", "2");
  EnvironmentVariable open_mpi("OMPI_COMM_WORLD_SIZE", nullptr), pmix("PMIX_RANK", nullptr), pmi("PMI_RANK", nullptr),
      pmi_fd("PMI_FD", nullptr);
  EXPECT_THROW(check_launcher(), Error);
  {
    EnvironmentVariable with_pmix("PMIX_RANK", "0");
    EXPECT_NO_THROW(check_launcher());
  }
  EnvironmentVariable one("SLURM_STEP_NUM_TASKS", "1");
  EXPECT_NO_THROW(check_launcher());
}

TEST(Launch, BelievesMpirunInsideASlurmJobOfManyTasks) {
  EnvironmentVariable open_mpi("OMPI_COMM_WORLD_SIZE", "1");
  EnvironmentVariable slurm("SLURM_NTASKS", "4");
  EXPECT_NO_THROW(check_launch(1));
}

TEST(Launch, AcceptsOneProgramAlone) {
  EnvironmentVariable open_mpi("OMPI_COMM_WORLD_SIZE", nullptr);
  EnvironmentVariable slurm("SLURM_NTASKS", "1");
  EXPECT_NO_THROW(check_launch(1));
}

}  // namespace
}  // namespace longwave
