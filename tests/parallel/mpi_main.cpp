// Runs the same tests on every rank in lock-step. Rank 0 reports progress, every rank its own failures; the first failing
// rank ends the job, because the others would wait for it in the next collective.
#include <gtest/gtest.h>

#include <cstdio>

#include "parallel/mpi/mpi_environment.h"

namespace longwave {
namespace {

class FailureListener final : public testing::EmptyTestEventListener {
 public:
  explicit FailureListener(int rank) : rank_(rank) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name() == nullptr ? "?" : result.file_name(),
                 result.line_number(), result.message());
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    std::fprintf(stderr, "rank %d: %s.%s failed\n", rank_, test.test_suite_name(), test.name());
    MpiEnvironment::abort_job(1);
  }

 private:
  int rank_;
};

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  longwave::MpiEnvironment mpi(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (mpi.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new longwave::FailureListener(mpi.rank()));
  const int failed = RUN_ALL_TESTS();
  mpi.finalize();
  return failed;
}
