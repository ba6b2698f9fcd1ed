// What a job file must not say, and that the refusal leads to it.
#include "tests/unit/config/job_file.h"

namespace longwave {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Refusal, LeadsToTheLineOfAnUnknownKey) {
  const JobFile file("model:\n  layers: 2\n  haeds: 4\n");
  try {
    load_config(file.path(), {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_EQ(std::string(error.what()), file.at(3) + ": model.haeds: unknown key; did you mean model.heads");
  }
}

TEST(Refusal, NamesAFileThatIsNotThere) {
  try {
    load_config("no/such/job.yaml", {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_STREQ(error.what(), "no/such/job.yaml: cannot be read: No such file or directory");
  }
}

TEST(Refusal, NamesWhateverIsNotAJobFile) {
  EXPECT_THAT(refusal(""), HasSubstr("job.yaml: "));
  EXPECT_THAT(refusal("just words"), HasSubstr("must hold sections"));
  EXPECT_THAT(refusal("- a\n- b\n"), HasSubstr("must hold sections"));
  EXPECT_THAT(refusal("model: {layers: 2\ntrain: [\n"), HasSubstr("is not YAML"));
  EXPECT_THAT(refusal("model:\n  layers: 2\n layers: 3\n"), AllOf(HasSubstr("job.yaml:3"), HasSubstr("is not YAML")));
  EXPECT_THROW(load_config("/tmp", {}), Error);
}

TEST(Refusal, NamesEveryMissingKeyInOneLine) {
  EXPECT_THAT(refusal("run: {seed: 1}\n"),
              EndsWith("missing: model.layers, model.width, model.heads, model.context, data.train, train.steps, train.batch "
                       "(model.preset gives sizes)"));
  EXPECT_THAT(refusal("model: {preset: 60m, context: 64}\ndata: {train: a}\ntrain: {batch: 1}\n"),
              EndsWith("missing: train.steps"));
}

TEST(Refusal, NamesBothPlacesOfARepeatedKey) {
  EXPECT_THAT(refusal("train:\n  steps: 1\n  batch: 1\n  steps: 2\n"),
              AllOf(HasSubstr("job.yaml:4: train.steps: given twice"), HasSubstr("job.yaml:2")));
  EXPECT_THAT(refusal("train: {steps: 1}\nmodel:\ntrain: {batch: 2}\n"), HasSubstr("job.yaml:3: train: given twice"));
}

struct Case {
  const char* override_;
  const char* message;
};

void PrintTo(const Case& refused, std::ostream* out) { *out << refused.override_; }

class CommandLineRefusal : public testing::TestWithParam<Case> {};

TEST_P(CommandLineRefusal, SaysWhatAndWhatElse) {
  EXPECT_THAT(refusal(smallest, {GetParam().override_}), AllOf(StartsWith("command line: "), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, CommandLineRefusal,
    testing::Values(Case{"position.knid=rope", "position.knid: unknown key; did you mean position.kind"},
                    Case{"train.learning_rate=1", "did you mean optimizer.learning_rate"},
                    Case{"modle.layers=1", "did you mean model.layers"}, Case{"tarin={steps: 1}", "did you mean train"},
                    Case{"lengths=[1]", "did you mean evaluate.lengths"},
                    Case{"schedule.qqqqqqq=1", "keys of schedule: kind, warmup, final, decay"},
                    Case{"zzzzzzzzzz=1", "sections: run, model, position"}, Case{"steps", "'steps' is not key=value"},
                    Case{"=3", "is not key=value"}, Case{"train=5", "expected a map"}, Case{"train.steps=[", "is not YAML"},
                    Case{"evaluate.passkey.trails=1", "did you mean evaluate.passkey.trials"},
                    Case{"data.train=[{path: a, wieght: 2}]", "data.train[0].wieght: unknown key; one of path, weight"}));

INSTANTIATE_TEST_SUITE_P(
    Types, CommandLineRefusal,
    testing::Values(
        Case{"model.heads=eight", "model.heads: expected an integer, got 'eight'"},
        Case{"model.heads=4.5", "expected an integer, got '4.5'"}, Case{"model.heads=[4]", "expected an integer, got a list"},
        Case{"model.heads={a: 1}", "expected an integer, got a map"}, Case{"train.steps=0x10", "expected an integer"},
        Case{"train.steps=1_000", "expected an integer"}, Case{"train.steps=1e300", "expected an integer"},
        Case{"train.steps=99999999999999999999", "expected an integer"}, Case{"run.seed=-1", "expected an integer from 0"},
        Case{"run.seed=18446744073709551616", "expected an integer from 0"},
        Case{"optimizer.learning_rate=fast", "expected a number, got 'fast'"},
        Case{"optimizer.learning_rate=.nan", "expected a number"}, Case{"optimizer.learning_rate=nan", "expected a number"},
        Case{"optimizer.learning_rate=inf", "expected a number"}, Case{"optimizer.learning_rate=1e-4x", "expected a number"},
        Case{"model.tied=yes", "expected true or false, got 'yes'"}, Case{"evaluate.lengths=128", "expected a list"},
        Case{"evaluate.lengths=[128,x]", "evaluate.lengths[1]: expected an integer"},
        Case{"optimizer.betas=[0.9]", "expected two numbers, got 1"}, Case{"run.dir={}", "expected a word, got a map"},
        Case{"position.cap=third", "expected quarter, none or an integer, got 'third'"},
        Case{"data.train=[[a]]", "expected a word, got a list"}, Case{"data.train=[{weight: 1}]", "a source needs a path"}));

INSTANTIATE_TEST_SUITE_P(Words, CommandLineRefusal,
                         testing::Values(Case{"position.kind=rop", "'rop' is not known; did you mean rope"},
                                         Case{"position.kind=fope-papper", "did you mean fope-paper"},
                                         Case{"run.device=gpu", "one of auto, cpu, cuda"},
                                         Case{"model.preset=60M", "one of quickstart, 60m, 180m, 1.2b"},
                                         Case{"schedule.kind=cosin", "one of cosine, constant, warmup-stable-decay"},
                                         Case{"train.on_bad_step=abort", "one of skip, stop"},
                                         Case{"data.dtype=uint8", "one of none, uint16, uint32"},
                                         Case{"run.name=a/b", "must be a plain file name"},
                                         Case{"run.name=..", "must be a plain file name"},
                                         Case{"run.name='-x'", "must be a plain file name"},
                                         Case{"run.name=''", "must be a plain file name"},
                                         Case{"run.dir=''", "must not be empty"}));

INSTANTIATE_TEST_SUITE_P(
    Ranges, CommandLineRefusal,
    testing::Values(Case{"model.layers=0", "model.layers: 0 is out of range, must be at least 1"},
                    Case{"train.batch=-4", "-4 is out of range"},
                    Case{"train.steps=10000000000000000", "out of range, must be at least 1, at most 1000000000000000"},
                    Case{"model.context=0", "at least 1"}, Case{"optimizer.learning_rate=0", "must be above 0"},
                    Case{"optimizer.betas=[0.9, 1]", "optimizer.betas[1]: 1 is out of range, must be at least 0, below 1"},
                    Case{"evaluate.passkey.depths=[1.5]", "must be at least 0, at most 1"},
                    Case{"evaluate.passkey.train_fraction=2", "at most 1"},
                    Case{"evaluate.lengths=[64, 64]", "64 is given twice"}, Case{"evaluate.lengths=[1]", "at least 2"},
                    Case{"checkpoint.keep=0", "at least 1"}, Case{"watchdog.step=0", "must be above 0, or auto"},
                    Case{"parallel.data=0", "at least 1, at most 1048576, or auto"}, Case{"position.cap=0", "at least 1"},
                    Case{"data.train=[{path: a, weight: 0}]", "above 0"}, Case{"logging.every=0", "at least 1"},
                    Case{"position.gain=-1", "at least 0"}));

INSTANTIATE_TEST_SUITE_P(
    Combinations, CommandLineRefusal,
    testing::Values(Case{"model.kv_heads=3", "model.kv_heads: 3 does not divide heads 4"},
                    Case{"model.head_dim=15", "15 is odd"},
                    Case{"model.vocabulary=256", "256 is too small for data.tokenizer: bytes"},
                    Case{"schedule.warmup=101", "101 is more than train.steps 100"},
                    Case{"train.micro_batch=9", "9 is more than train.batch 8"},
                    Case{"parallel.tensor=3", "parallel.tensor = 3: model.heads = 4 is not a multiple of it"},
                    Case{"evaluate.every=5", "needs data.validation"}, Case{"position.cap=9", "must be 1 to head_dim/2 = 8"},
                    Case{"position.floor_cycles=1000", "leaves no frequency"},
                    Case{"position.scaling=yarn", "has no meaning with position.kind: fope"},
                    Case{"position={kind: yarn, original_context: 1000000}", "must be the training length of the RoPE weights"},
                    Case{"position={kind: yarn, scaling: yarn}", "has no meaning with position.kind: yarn"},
                    Case{"position.fraction=.5", "has no meaning with position.kind: fope"},
                    Case{"schedule.decay=.5", "has no meaning with schedule.kind: cosine"}));

TEST(Refusal, NamesTheDefaultThatCannotWork) {
  EXPECT_EQ(refusal(smallest, {"model.width=66"}),
            "model.head_dim (default (width / heads)): width 66 does not divide by heads 4; set model.head_dim, or width 68");
  EXPECT_THAT(refusal(smallest, {"model.head_dim=10"}),
              HasSubstr("position.cap (default): quarter needs model.head_dim to be a multiple of 4, it is 10"));
  EXPECT_THAT(refusal(smallest, {"position.kind=yarn"}), HasSubstr("position.original_context (default): 0, must be"));
}

TEST(Refusal, OfAPositionOptionThatHasNoMeaningNamesItsLine) {
  const std::string text = smallest + "position:\n  gain: 0.4\n";
  EXPECT_THAT(refusal(text, {"position.kind=rope"}),
              HasSubstr("job.yaml:8: position.gain: has no meaning with position.kind: rope; leave it out, or say "
                        "position.gain=null on the command line"));
}

TEST(Refusal, OfAWarmUpAndADecayThatOverlap) {
  EXPECT_THAT(refusal(smallest, {"schedule={kind: warmup-stable-decay, warmup: 60, decay: 0.5}"}),
              HasSubstr("schedule.decay: 0.5"));
}

TEST(Refusal, OfAKeyWithoutAValueInAFile) {
  EXPECT_THAT(refusal("run:\n  seed:\n"), HasSubstr("job.yaml:2: run.seed: has no value"));
}

TEST(Refusal, NamesTheLineOfAListItem) {
  EXPECT_THAT(refusal(smallest + "evaluate:\n  lengths:\n    - 64\n    - x\n"),
              HasSubstr("job.yaml:10: evaluate.lengths[1]: "));
}

std::string finish_refusal(const std::vector<std::string>& overrides, std::int64_t ranks, std::int64_t vocabulary) {
  Config config = load(smallest, overrides);
  try {
    finish_config(config, ranks, vocabulary);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
  return "";
}

TEST(FinishConfig, RefusesAMeshThatIsNotTheRanksAndNamesThoseThatAre) {
  EXPECT_THAT(finish_refusal({"parallel.tensor=4"}, 6, 257),
              AllOf(StartsWith("command line: parallel.tensor = 4: "), HasSubstr("6 ranks"),
                    HasSubstr("parallel.tensor=2 parallel.data=3"), HasSubstr("parallel.tensor=1 parallel.data=6")));
  EXPECT_THAT(finish_refusal({"parallel.data=3"}, 4, 257),
              AllOf(StartsWith("command line: parallel.data = 3 "), HasSubstr("4 were started"),
                    HasSubstr("parallel.tensor=1 parallel.data=4")));
}

TEST(FinishConfig, RefusesABatchThatDoesNotDivideAndNamesTheNearest) {
  EXPECT_THAT(finish_refusal({}, 3, 257), HasSubstr("train.batch: 8 is not a multiple of 3 data ranks; nearest: 6 or 9"));
  EXPECT_THAT(finish_refusal({"train.micro_batch=3"}, 2, 257),
              HasSubstr("train.batch: 8 is not a multiple of micro_batch 3 x 2 data ranks; nearest: 6 or 12"));
  EXPECT_THAT(finish_refusal({}, 16, 257), HasSubstr("nearest: 16"));
}

TEST(FinishConfig, RefusesAVocabularyThatIsUnknownOrTooSmall) {
  EXPECT_THAT(finish_refusal({"data.tokenizer=none"}, 1, 0), HasSubstr("model.vocabulary (default): must be given"));
  EXPECT_THAT(finish_refusal({"model.vocabulary=300", "data.tokenizer=a.model"}, 1, 1000),
              HasSubstr("command line: model.vocabulary: 300 is less than the 1000 ids of tokenizer a.model"));
}

}  // namespace
}  // namespace longwave
