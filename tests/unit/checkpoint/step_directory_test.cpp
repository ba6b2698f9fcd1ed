#include "parallel/checkpoint/step_directory.h"

#include <filesystem>

#include "core/base/file.h"
#include "tests/unit/data/scratch_folder.h"
#include "tests/unit/expect_error.h"

namespace longwave {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void save(const std::string& folder, std::int64_t step) {
  write_file_atomically(begin_partial(folder, step) + "/manifest.json", "{}");
  commit_partial(folder, step);
}

TEST(StepDirectory, NamesStepsSoThatTheySort) {
  EXPECT_EQ(step_name(1000), "step-00001000");
  EXPECT_EQ(parse_step_name("step-00001000"), 1000);
  EXPECT_EQ(parse_step_name("step-123456789"), 123456789);
  for (const char* name : {"step-1000", "step-00001000.partial", "step-00001000.removed", "step-0000100x", "step--0000001",
                           "step-012345678", "latest", "step-99999999999999999999"}) {
    EXPECT_FALSE(parse_step_name(name)) << name;
  }
}

TEST(StepDirectory, ListsOnlyWhatIsComplete) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("checkpoints");
  EXPECT_THAT(list_steps(folder), IsEmpty());
  begin_partial(folder, 30);
  save(folder, 20);
  save(folder, 10);
  EXPECT_THAT(list_steps(folder), ElementsAre(10, 20));
}

TEST(StepDirectory, BeginsAPartialFolderAnew) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("checkpoints");
  write_file_atomically(begin_partial(folder, 10) + "/rank-00000.safetensors", "old");
  EXPECT_TRUE(std::filesystem::is_empty(begin_partial(folder, 10)));
}

TEST(StepDirectory, CleansWhatAKilledProcessLeft) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("checkpoints");
  remove_leftovers(folder);
  save(folder, 10);
  begin_partial(folder, 20);
  std::filesystem::create_directories(folder + "/step-00000005.removed/x");
  remove_leftovers(folder);
  EXPECT_THAT(list_steps(folder), ElementsAre(10));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(StepDirectory, KeepsTheNewestAndTheMultiples) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("checkpoints");
  for (std::int64_t step = 10; step <= 100; step += 10) save(folder, step);
  EXPECT_THAT(apply_retention(folder, 2, 30), ElementsAre(10, 20, 40, 50, 70, 80));
  EXPECT_THAT(list_steps(folder), ElementsAre(30, 60, 90, 100));
  EXPECT_THAT(apply_retention(folder, 1, 0), ElementsAre(30, 60, 90));
  EXPECT_THAT(apply_retention(folder, 5, 0), IsEmpty());
  EXPECT_THAT(list_steps(folder), ElementsAre(100));
}

TEST(StepDirectory, SetsAStepAsideWithoutRemovingIt) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("checkpoints");
  for (int again = 0; again < 2; ++again) {
    save(folder, 10);
    EXPECT_TRUE(std::filesystem::exists(set_aside(folder, 10) + "/manifest.json"));
  }
  EXPECT_THAT(list_steps(folder), IsEmpty());
  remove_leftovers(folder);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
}

TEST(StepDirectory, LatestNamesTheStep) {
  const ScratchFolder scratch;
  write_latest(scratch.path(), 1000);
  EXPECT_EQ(read_file(scratch.path("latest")), "step-00001000\n");
}

}  // namespace
}  // namespace longwave
