#include "jobs/config/schema.h"

#include <algorithm>

#include "jobs/config/schema_sections.h"
#include "jobs/config/setting_types.h"

namespace longwave {
namespace {

constexpr double int32_limit = 2147483647;  // ids and positions are int32 on every backend

const Words<ScheduleKind> schedule_kinds = {{"cosine", ScheduleKind::cosine},
                                            {"constant", ScheduleKind::constant},
                                            {"warmup-stable-decay", ScheduleKind::warmup_stable_decay}};

template <ScheduleKind... kinds>
std::string unless_schedule(const Config& config) {
  if (((config.schedule.kind == kinds) || ...)) return "";
  return "schedule.kind: " + written_word(config.schedule.kind, schedule_kinds);
}
constexpr auto for_decays = unless_schedule<ScheduleKind::cosine, ScheduleKind::warmup_stable_decay>;
constexpr auto for_stable = unless_schedule<ScheduleKind::warmup_stable_decay>;

Setting model_preset() {
  std::vector<std::string> names;
  for (const char* name : {"quickstart", "60m", "180m", "1.2b"}) names.emplace_back(name);
  return {"model.preset",
          one_of(names),
          "none",
          "sizes, and position.gain, of a published model; explicit keys win",
          [names](Config&, const Value& value) {
            if (find_preset("model.preset", value.text()) == nullptr) {
              throw value.refuse(fmt::format("{} is not known{}", value.shown(), suggest_word(value.text(), names)));
            }
          },
          nullptr};
}

Setting betas() {
  return {"optimizer.betas",
          "list of two numbers, each at least 0, below 1",
          "",
          "decay of AdamW's first and second moment",
          [](Config& config, const Value& value) {
            const std::vector<Value> items = value.items();
            if (items.size() != 2) throw value.refuse(fmt::format("expected two numbers, got {}", items.size()));
            constexpr Range range{.low = 0, .high = 1, .below_high = true};
            config.optimizer.beta1 = read_number<double>(items[0], range);
            config.optimizer.beta2 = read_number<double>(items[1], range);
          },
          [](const Config& config) { return fmt::format("[{}, {}]", config.optimizer.beta1, config.optimizer.beta2); }};
}

std::vector<Setting> run_settings() {
  using R = RunConfig;
  Setting name = text("run.name", at(&Config::run, &R::name), "a plain file name", "the job file's name without .yaml",
                      "the run's directory within run.dir");
  name.set = [](Config& config, const Value& value) {
    const std::string word = value.text();
    const bool control =
        std::any_of(word.begin(), word.end(), [](unsigned char letter) { return letter < 32 || letter == 127; });
    if (word.empty() || word == "." || word == ".." || word[0] == '-' || control || word.find('/') != std::string::npos ||
        word.size() > 200) {
      throw value.refuse(fmt::format("{} must be a plain file name: no /, no leading -, at most 200 bytes", value.shown()));
    }
    config.run.name = word;
  };
  Setting init_from = text("run.init_from", at(&Config::run, &R::init_from), "none, or a path", "none",
                           "initial weights: a run, a checkpoint, a safetensors file or a Hugging Face Llama folder; positions start anew");
  init_from.set = [](Config& config, const Value& value) { config.run.init_from = value.text() == "none" ? "" : value.text(); };
  init_from.get = [](const Config& config) {
    return config.run.init_from.empty() ? std::string("none") : written_text(config.run.init_from);
  };
  return {
      name,
      text("run.dir", at(&Config::run, &R::dir), "a folder", "", "where run directories are made"),
      number("run.seed", at(&Config::run, &R::seed), {}, "", "of initial weights, coefficients, data order and prompts"),
      word("run.device", at(&Config::run, &R::device),
           {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}},
           "what computes; auto takes a GPU where every rank has one"),
      word("run.precision", at(&Config::run, &R::precision),
           {{"auto", Precision::automatic}, {"bf16", Precision::bf16}, {"fp32", Precision::fp32}},
           "of matrix products and activations; auto is what the run began with, at first bf16 where the hardware of every "
           "rank has it; bf16 where a CPU has it not is computed in software, slower than fp32; master weights are fp32 always"),
      word("run.cuda_graph", at(&Config::run, &R::cuda_graph),
           {{"auto", GraphChoice::automatic}, {"true", GraphChoice::on}, {"false", GraphChoice::off}},
           "a step's passes and reductions as one CUDA graph; auto: where the device can; not tried on a GPU yet"),
      word("run.resume", at(&Config::run, &R::resume),
           {{"auto", Resume::automatic}, {"required", Resume::required}, {"never", Resume::never}},
           "an existing run directory is continued, must be there, or must not hold steps"),
      number("run.resume_step", at(&Config::run, &R::resume_step), {.low = 1, .high = unlimited, .zero = "newest"}, "",
             "the saved step to go on from; newer ones, when they were saved before it was asked for, are set aside"),
      init_from,
  };
}

std::vector<Setting> model_settings() {
  using M = ModelConfig;
  constexpr Range size{.low = 1, .high = 1048576};
  return {
      model_preset(),
      number("model.layers", at(&Config::model, &M::layers), {.low = 1, .high = 10000}, "required", "transformer blocks"),
      number("model.width", at(&Config::model, &M::width), size, "required", "of the residual stream"),
      number("model.heads", at(&Config::model, &M::heads), {.low = 1, .high = 4096}, "required", "query heads"),
      number("model.kv_heads", at(&Config::model, &M::kv_heads), {.low = 1, .high = 4096}, "heads",
             "key and value heads; divides heads"),
      number("model.head_dim", at(&Config::model, &M::head_dim), {.low = 2, .high = 256}, "width / heads",
             "even; heads * head_dim may differ from width"),
      number("model.mlp_hidden", at(&Config::model, &M::mlp_hidden), size, "4 * width", "hidden size of the SwiGLU MLP"),
      number("model.context", at(&Config::model, &M::context), {.low = 1, .high = int32_limit}, "required",
             "training length; a sample is context + 1 tokens"),
      number("model.vocabulary", at(&Config::model, &M::vocabulary), {.low = 2, .high = int32_limit, .zero = "auto"},
             "auto", "token ids; auto is the tokenizer's"),
      boolean("model.tied", at(&Config::model, &M::tied), "the head is the embedding, transposed"),
      boolean("model.qk_norm", at(&Config::model, &M::qk_norm), "RMSNorm of q and k before the position transform"),
      number("model.norm_epsilon", at(&Config::model, &M::norm_epsilon), {.low = 0, .high = 1, .above_low = true}, "",
             "of every RMSNorm"),
  };
}

std::vector<Setting> data_settings() {
  using D = DataConfig;
  return {
      text("data.tokenizer", at(&Config::data, &D::tokenizer), "bytes, none, or a SentencePiece .model file", "",
           "none is for token files made elsewhere; bytes has 257 ids"),
      sources("data.train", at(&Config::data, &D::train), true, "required",
              "text or .gz files, folders, globs or token files; weight is the source's share of the samples, 1 by default"),
      sources("data.validation", at(&Config::data, &D::validation), false, "[]",
              "held out for validation loss and perplexity"),
      word("data.dtype", at(&Config::data, &D::dtype), {{"none", ""}, {"uint16", "uint16"}, {"uint32", "uint32"}},
           "of raw token files without a header"),
  };
}

std::vector<Setting> train_settings() {
  using T = TrainConfig;
  using O = OptimizerConfig;
  using S = ScheduleConfig;
  return {
      number("train.steps", at(&Config::train, &T::steps), {.low = 1, .high = unlimited}, "required", "optimizer updates"),
      number("train.batch", at(&Config::train, &T::batch), {.low = 1, .high = int32_limit}, "required",
             "sequences a step, over all ranks"),
      number("train.micro_batch", at(&Config::train, &T::micro_batch), {.low = 1, .high = int32_limit, .zero = "auto"},
             "", "sequences a rank at a time; auto is batch / data ranks"),
      word("train.on_bad_step", at(&Config::train, &T::on_bad_step), {{"skip", OnBadStep::skip}, {"stop", OnBadStep::stop}},
           "when loss or gradient is not finite, or spikes: leave the step out, or end with exit code 76"),
      number("train.spike", at(&Config::train, &T::spike), {.low = 0, .high = 1e6}, "",
             "a gradient norm above so many times its running average is a spike; 0: none is"),
      number("optimizer.learning_rate", at(&Config::optimizer, &O::learning_rate), {.low = 0, .high = 100, .above_low = true},
             "", "AdamW's, at its peak"),
      betas(),
      number("optimizer.epsilon", at(&Config::optimizer, &O::epsilon), {.low = 0, .high = 1, .above_low = true}, "",
             "AdamW's"),
      number("optimizer.weight_decay", at(&Config::optimizer, &O::weight_decay), {.low = 0, .high = 100}, "",
             "decoupled, on everything trained"),
      number("optimizer.clip", at(&Config::optimizer, &O::clip), {.low = 0}, "",
             "largest norm of the whole gradient; 0 is off"),
      word("schedule.kind", at(&Config::schedule, &S::kind), schedule_kinds, "of the learning rate after the warm-up"),
      number("schedule.warmup", at(&Config::schedule, &S::warmup), {.low = 0, .high = unlimited}, "steps / 20",
             "steps of linear warm-up"),
      only(for_decays, number("schedule.final", at(&Config::schedule, &S::final_share), {.low = 0, .high = 1}, "",
                              "last learning rate as a share of the peak")),
      only(for_stable, number("schedule.decay", at(&Config::schedule, &S::decay_share), {.low = 0, .high = 1}, "",
                              "last share of the steps, over which the rate falls")),
  };
}

std::vector<Setting> job_settings() {
  using P = ParallelConfig;
  using C = CheckpointConfig;
  using E = EvaluateConfig;
  using K = PasskeyConfig;
  using L = LoggingConfig;
  using W = WatchdogConfig;
  constexpr Range seconds{.low = 0, .above_low = true};
  constexpr Range automatic_seconds{.low = 0, .above_low = true, .zero = "auto"};
  constexpr Range lengths{.low = 2, .high = int32_limit};
  return {
      number("parallel.tensor", at(&Config::parallel, &P::tensor), {.low = 1, .high = 65536}, "", "shards of each layer"),
      number("parallel.data", at(&Config::parallel, &P::data), {.low = 1, .high = 1048576, .zero = "auto"}, "",
             "replicas; tensor * data is the number of ranks, which auto fits"),
      boolean("parallel.sequence", at(&Config::parallel, &P::sequence),
              "norms and residual stream are split over the tensor shards"),
      boolean("parallel.shard_optimizer", at(&Config::parallel, &P::shard_optimizer),
              "optimizer state is split over the data ranks"),
      number("checkpoint.every_steps", at(&Config::checkpoint, &C::every_steps), {.low = 0, .high = unlimited}, "",
             "steps between checkpoints; 0: by time only"),
      number("checkpoint.every_minutes", at(&Config::checkpoint, &C::every_minutes), {.low = 0}, "",
             "minutes between checkpoints; 0: by steps only"),
      number("checkpoint.keep", at(&Config::checkpoint, &C::keep), {.low = 1, .high = unlimited}, "",
             "newest checkpoints that stay"),
      number("checkpoint.keep_every", at(&Config::checkpoint, &C::keep_every), {.low = 0, .high = unlimited}, "",
             "checkpoints of every so many steps stay for good; 0: none"),
      boolean("checkpoint.async", at(&Config::checkpoint, &C::async), "written while training goes on"),
      boolean("checkpoint.verify", at(&Config::checkpoint, &C::verify), "what was written is read back and compared before it counts"),
      word("checkpoint.on_error", at(&Config::checkpoint, &C::on_error),
           {{"continue", OnSaveError::proceed}, {"abort", OnSaveError::abort}}, "when a checkpoint cannot be written"),
      number("evaluate.every", at(&Config::evaluate, &E::every), {.low = 0, .high = unlimited}, "",
             "steps between validation losses; 0: at the end only"),
      numbers("evaluate.lengths", at(&Config::evaluate, &E::lengths), lengths, "1/2, 1, 2, 4, 8, 16 x context",
              "lengths at which perplexity is measured"),
      number("evaluate.tokens", at(&Config::evaluate, &E::tokens), {.low = 2, .high = unlimited}, "",
             "of the validation stream, for each length"),
      numbers("evaluate.passkey.lengths", at(&Config::evaluate, &E::passkey, &K::lengths), lengths, "evaluate.lengths",
              "lengths of the passkey prompts"),
      numbers("evaluate.passkey.depths", at(&Config::evaluate, &E::passkey, &K::depths), {.low = 0, .high = 1}, "",
              "where the key stands: 0 first, 1 last"),
      number("evaluate.passkey.trials", at(&Config::evaluate, &E::passkey, &K::trials), {.low = 0, .high = 1e6}, "",
             "prompts for each length and depth; 0: no passkey test"),
      number("evaluate.passkey.train_fraction", at(&Config::evaluate, &E::passkey, &K::train_fraction), {.low = 0, .high = 1},
             "", "share of the training samples that are passkey prompts"),
      number("logging.every", at(&Config::logging, &L::every), {.low = 1, .high = unlimited}, "",
             "steps between lines of metrics.jsonl"),
      boolean("logging.tensorboard", at(&Config::logging, &L::tensorboard), "event files as well"),
      boolean("logging.profile", at(&Config::logging, &L::profile),
              "a table of operations at the end: seconds, calls, rate, fraction of the floor"),
      number("watchdog.start", at(&Config::watchdog, &W::start), seconds, "", "seconds that starting may take"),
      number("watchdog.step", at(&Config::watchdog, &W::step), automatic_seconds, "",
             "seconds a step may take; auto is 20 times the slowest so far, at least 60"),
      number("watchdog.evaluate", at(&Config::watchdog, &W::evaluate), automatic_seconds, "",
             "seconds a part of the evaluation may take; auto as for step"),
      number("watchdog.save", at(&Config::watchdog, &W::save), seconds, "", "seconds that a checkpoint may take"),
  };
}

std::vector<Setting> make_settings() {
  std::vector<Setting> all;
  for (auto part : {run_settings, model_settings, position_settings, data_settings, train_settings, job_settings}) {
    for (Setting& setting : part()) all.push_back(std::move(setting));
  }
  const Config standard;
  for (Setting& setting : all) {
    if (setting.standard.empty()) setting.standard = setting.get(standard);
  }
  return all;
}

std::vector<Preset> make_presets() {
  const auto sizes = [](const char* name, const char* layers, const char* width, const char* heads, const char* head_dim,
                        const char* hidden, const char* gain) {
    return Preset{"model.preset",
                  name,
                  {{"model.layers", layers},
                   {"model.width", width},
                   {"model.heads", heads},
                   {"model.head_dim", head_dim},
                   {"model.mlp_hidden", hidden},
                   {"position.gain", gain}}};
  };
  return {
      sizes("quickstart", "4", "256", "4", "64", "640", "0.3"),
      sizes("60m", "8", "512", "8", "64", "2048", "0.3"),
      sizes("180m", "8", "1024", "8", "128", "4096", "0.4"),
      sizes("1.2b", "16", "2048", "16", "128", "8192", "0.6"),
      {"position.kind", "fope-authors", {{"position.kind", "fope"}, {"position.identity", "step"}}},
      {"position.kind", "fope-paper", {{"position.kind", "fope"}, {"position.cap", "none"}, {"position.zero_phase", "0"}}},
  };
}

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = make_settings();
  return all;
}

const Setting* find_setting(std::string_view key) {
  for (const Setting& setting : settings()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

bool is_section(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  return std::any_of(settings().begin(), settings().end(),
                     [&](const Setting& setting) { return setting.key.compare(0, prefix.size(), prefix) == 0; });
}

const Preset* find_preset(std::string_view key, std::string_view name) {
  static const std::vector<Preset> presets = make_presets();
  for (const Preset& preset : presets) {
    if (preset.key == key && preset.name == name) return &preset;
  }
  return nullptr;
}

}  // namespace longwave
