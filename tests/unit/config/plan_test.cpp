// A plan's numbers, where they can be counted by hand.
#include "jobs/plan/plan.h"

#include "tests/unit/config/job_file.h"

namespace longwave {
namespace {

using testing::HasSubstr;

Plan plan_of(const std::vector<std::string>& overrides, std::int64_t ranks = 1, bool calibrate = false) {
  return make_plan(load(smallest, overrides), {ranks, calibrate});
}

std::int64_t part(const Plan& plan, const std::string& name) {
  for (const auto& [part, count] : plan.parameters) {
    if (part == name) return count;
  }
  return -1;
}

std::size_t memory(const Plan& plan, const std::string& name) {
  for (const auto& [kind, bytes] : plan.memory) {
    if (kind == name) return bytes;
  }
  return 0;
}

// Two layers of width 64 with 4 heads of 16, 2 of them for keys, and an MLP of 256 over 257 byte ids.
TEST(Plan, CountsParametersByPart) {
  const Plan plan = plan_of({"model.kv_heads=2"});
  EXPECT_EQ(part(plan, "embedding"), 257 * 64);
  EXPECT_EQ(part(plan, "head"), 257 * 64);
  EXPECT_EQ(part(plan, "attention"), 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64));
  EXPECT_EQ(part(plan, "mlp"), 2 * 3 * 64 * 256);
  EXPECT_EQ(part(plan, "norms"), 5 * 64);
  // The 3 frequencies of head_dim 16 that complete a cycle within 128 tokens, and for 2 layers and 2 KV heads two 3 x 3
  // matrices.
  EXPECT_EQ(part(plan, "position"), 3 + 2 * 2 * 2 * 3 * 3);
  EXPECT_EQ(plan.frozen, part(plan, "position"));
  EXPECT_EQ(plan.trained, 2 * 257 * 64 + part(plan, "attention") + part(plan, "mlp") + part(plan, "norms"));
  EXPECT_EQ(part(plan_of({"model.tied=true"}), "head"), 0);
}

TEST(Plan, CountsOperationsOfCausalAttentionOnce) {
  const Plan plan = plan_of({});
  const double products = 2.0 * 64 * (4 * 64 + 3 * 256);
  const double attention = 4.0 * 64 * (128 + 1) / 2;
  EXPECT_DOUBLE_EQ(plan.forward_operations_per_token, 2 * (products + attention) + 2.0 * 64 * 257);
}

TEST(Plan, CountsTokens) {
  const Plan plan = plan_of({});
  EXPECT_EQ(plan.tokens_per_step, 8 * 128);
  EXPECT_EQ(plan.tokens, 100 * 8 * 128);
}

TEST(Plan, SharesMemoryOverTheMesh) {
  const Plan one = plan_of({"run.precision=fp32"});
  const Plan data = plan_of({"run.precision=fp32"}, 2);
  const Plan tensor = plan_of({"run.precision=fp32", "parallel.tensor=2"}, 2);
  EXPECT_EQ(data.config.parallel.data, 2);
  EXPECT_EQ(memory(data, "parameters"), memory(one, "parameters"));
  // Of the rank that holds most: one of the two also holds the few elements that no equal slices hold.
  EXPECT_NEAR(memory(data, "optimizer"), memory(one, "optimizer") / 2, 2 * 64 * 2 * sizeof(float));
  EXPECT_GE(memory(data, "optimizer"), memory(one, "optimizer") / 2);
  EXPECT_EQ(memory(one, "optimizer"), 2 * memory(one, "gradients"));
  EXPECT_LT(memory(data, "activations"), memory(one, "activations"));
  EXPECT_LT(memory(tensor, "gradients"), memory(one, "gradients") * 6 / 10);
  EXPECT_EQ(memory(plan_of({"run.precision=fp32", "parallel.shard_optimizer=false"}, 2), "optimizer"),
            memory(one, "optimizer"));
}

TEST(Plan, RefusesRanksThatTheJobCannotUse) {
  EXPECT_THROW(plan_of({}, 3), Error);
  EXPECT_THROW(plan_of({"parallel.data=2"}, 1), Error);
}

TEST(Plan, CountsTheDataThatIsThere) {
  const JobFile text(std::string(5000, 'x'));
  const Plan plan = plan_of({"data.train=" + text.path()});
  EXPECT_EQ(plan.data_tokens, 5001);  // and the end of the document
  const Plan absent = plan_of({"data.train=/no/such/text"});
  EXPECT_FALSE(absent.data_tokens.has_value());
  EXPECT_THAT(absent.data_note, HasSubstr("/no/such/text"));
}

TEST(Plan, NeedsAVocabularyFromSomewhere) {
  EXPECT_THROW(plan_of({"data.tokenizer=none", "data.train=/no/such/ids"}), Error);
  EXPECT_EQ(plan_of({"data.tokenizer=none", "data.train=/no/such/ids", "model.vocabulary=1000"}).config.model.vocabulary,
            1000);
}

class Calibrated : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Calibrated, TrainsForAMomentOnAnyMesh) {
  const Plan plan = plan_of(GetParam(), 2, true);
  ASSERT_TRUE(plan.measured.has_value());
  EXPECT_GT(plan.measured->seconds_per_step, 0);
  EXPECT_DOUBLE_EQ(plan.measured->tokens_per_second * plan.measured->seconds_per_step, 8 * 128);
  EXPECT_GT(plan.evaluation_seconds(), 0);
}

INSTANTIATE_TEST_SUITE_P(Plan, Calibrated,
                         testing::Values(std::vector<std::string>{"run.precision=fp32"},
                                         std::vector<std::string>{"run.precision=fp32", "parallel.tensor=2"}));

}  // namespace
}  // namespace longwave
