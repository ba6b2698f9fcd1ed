// A job's configuration, resolved: defaults, then the file, then key=value from the command line. Strict: an unknown key,
// a wrong type, a value out of range or a combination that cannot work is refused with file, line and the nearest valid
// key, before anything is allocated or written. Keys and words are documented in jobs/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/model_config.h"
#include "core/optimizer/optimizer_config.h"
#include "core/position/position_config.h"

namespace longwave {

enum class Resume { automatic, required, never };
enum class DeviceChoice { automatic, cpu, cuda };
enum class Precision { automatic, bf16, fp32 };
enum class GraphChoice { automatic, on, off };
enum class OnBadStep { skip, stop };
enum class OnSaveError { proceed, abort };

struct RunConfig {
  std::string name;  // default: the file's stem
  std::string dir = "runs";
  std::uint64_t seed = 1;
  DeviceChoice device = DeviceChoice::automatic;
  Precision precision = Precision::automatic;
  GraphChoice cuda_graph = GraphChoice::off;
  Resume resume = Resume::automatic;
  std::int64_t resume_step = 0;  // the step to go back to; 0: the newest
  std::string init_from;  // run, checkpoint, safetensors file or Hugging Face folder with the initial weights; empty: drawn
};

struct DataSource {
  std::string path;  // text or .gz file, folder, glob, or token file; relative to the working directory
  double weight = 1;
};

struct DataConfig {
  std::string tokenizer = "bytes";  // "bytes", a SentencePiece .model file, or "none" for token files without one
  std::vector<DataSource> train;
  std::vector<DataSource> validation;
  std::string dtype;  // of raw token files: uint16 or uint32; empty: not raw
};

struct TrainConfig {
  std::int64_t steps = 0;
  std::int64_t batch = 0;        // sequences a step, over all ranks
  std::int64_t micro_batch = 0;  // sequences a rank at a time; 0: batch / data ranks
  OnBadStep on_bad_step = OnBadStep::skip;
  double spike = 20;  // gradient norm over its running average that makes a bad step; 0: off
};

struct ParallelConfig {
  std::int64_t tensor = 1;
  std::int64_t data = 0;  // 0: auto
  bool sequence = true;
  bool shard_optimizer = true;
};

struct CheckpointConfig {
  std::int64_t every_steps = 0;
  double every_minutes = 30;
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;
  bool async = true;
  bool verify = true;
  OnSaveError on_error = OnSaveError::proceed;
};

struct PasskeyConfig {
  std::vector<std::int64_t> lengths;  // default: evaluate.lengths
  std::vector<double> depths = {0, .25, .5, .75, 1};
  std::int64_t trials = 20;   // 0: none
  double train_fraction = 0;  // share of training samples that are passkey prompts of training length
};

struct EvaluateConfig {
  std::int64_t every = 0;             // validation loss every so many steps; 0: at the end only
  std::vector<std::int64_t> lengths;  // default: 1/2, 1, 2, 4, 8, 16 x context
  std::int64_t tokens = 131072;       // of the validation stream, per length
  PasskeyConfig passkey;
};

struct LoggingConfig {
  std::int64_t every = 10;
  bool tensorboard = false;
  bool profile = false;
};

struct WatchdogConfig {  // seconds; 0: auto
  double start = 300;
  double step = 0;
  double evaluate = 0;
  double save = 600;
};

struct Config {
  RunConfig run;
  ModelConfig model;
  PositionConfig position;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  ParallelConfig parallel;
  CheckpointConfig checkpoint;
  EvaluateConfig evaluate;
  LoggingConfig logging;
  WatchdogConfig watchdog;

  // Where each dotted key's value came from: "default", "command line", "jobs/a.yaml:12", "preset 60m (jobs/a.yaml:3)".
  // Keys that have no say here, such as position.gain under rope, are left out.
  struct Origin {
    std::string key;
    std::string source;
  };
  std::vector<Origin> origins;  // in the order of the sections above

  std::string run_directory() const { return run.dir + "/" + run.name; }
};

// Throws config_error. `overrides` are "dotted.key=value", the value being YAML; "key=null" takes the file's value back to
// the default, and data.train=PATH is a list of one. What depends on the number of ranks or on the tokenizer's size is
// checked by `finish_config`, still before anything is written.
Config load_config(const std::string& path, const std::vector<std::string>& overrides);

// Fills what depends on the mesh and on the data: parallel.data, train.micro_batch, model.vocabulary (0 until now).
// Throws config_error, naming the nearest values that would do. `tokenizer_vocabulary` 0: there is no tokenizer.
void finish_config(Config& config, std::int64_t ranks, std::int64_t tokenizer_vocabulary);

// Refuses `key` for a reason that involves more than its own value: "jobs/a.yaml:12: train.batch: ...".
[[nodiscard]] Error refuse_setting(const Config& config, const std::string& key, const std::string& reason);

// The resolved configuration as a job file: loading it again gives the same Config. With `sources`, every line ends in a
// comment that says where the value came from.
std::string to_yaml(const Config& config, bool sources);

// The same as a list, in the same order.
struct ResolvedSetting {
  std::string key;
  std::string value;  // as YAML
  std::string source;
};
std::vector<ResolvedSetting> resolved_settings(const Config& config);

// Every key with type, default and meaning: as text for a terminal, or as the tables of jobs/README.md.
std::string describe_settings(bool markdown);

}  // namespace longwave
