// `longwave checkpoint list|inspect|verify|export|diff`: looking at checkpoints and taking weights elsewhere. One process,
// no MPI.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "core/base/file.h"
#include "jobs/checkpoint/export.h"
#include "jobs/checkpoint/listing.h"
#include "jobs/checkpoint/weight_source.h"
#include "jobs/commands.h"

namespace longwave {
namespace {

struct CheckpointArguments {
  std::string path, other, output, dtype = "fp32";
  double shard_gigabytes = 5;
};

ExitCode run_export(const CheckpointArguments& arguments) {
  ExportOptions options;
  options.dtype = arguments.dtype == "bf16" ? DType::bf16 : DType::f32;
  options.shard_bytes = static_cast<std::uint64_t>(arguments.shard_gigabytes * 1e9);
  const std::string checkpoint = resolve_checkpoint(arguments.path);
  export_checkpoint(checkpoint, arguments.output, options);
  fmt::print("{} -> {}\n", checkpoint, arguments.output);
  return ExitCode::done;
}

ExitCode run_diff(const CheckpointArguments& arguments) {
  const Difference difference = compare_checkpoints(resolve_checkpoint(arguments.path), resolve_checkpoint(arguments.other));
  fmt::print("{}", difference.text);
  return difference.equal ? ExitCode::done : ExitCode::data;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<CheckpointArguments>();
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "List, inspect, verify, compare and export checkpoints");
  checkpoint->require_subcommand(1);
  const auto add = [&](const char* name, const char* meaning, auto run) {
    CLI::App* action = checkpoint->add_subcommand(name, meaning);
    action->add_option("RUN_OR_CHECKPOINT", arguments->path, "Run directory (its newest checkpoint) or step folder")->required();
    action->callback([arguments, &command, run] { command.run = [arguments, run] { return run(*arguments); }; });
    return action;
  };
  const auto print = [](std::string (*text)(const std::string&)) {
    return [text](const CheckpointArguments& given) {
      fmt::print("{}", text(resolve_checkpoint(given.path)));
      return ExitCode::done;
    };
  };
  add("list", "The checkpoints of a run", [](const CheckpointArguments& given) {
    fmt::print("{}", list_checkpoints(given.path));
    return ExitCode::done;
  });
  add("inspect", "Step, mesh, sizes, and shape, dtype, norm and owners of every tensor", print(inspect_checkpoint));
  add("verify", "Check every byte against its checksum; 65 and the bad file's name when one differs", print(verify_checkpoint));
  CLI::App* exporting = add("export", "Write a Hugging Face folder: config.json and safetensors", run_export);
  exporting->add_option("-o,--output", arguments->output, "Folder to make")->required();
  exporting->add_option("--dtype", arguments->dtype, "Of the weights: fp32 or bf16")->check(CLI::IsMember({"fp32", "bf16"}));
  exporting->add_option("--shard-gb", arguments->shard_gigabytes, "Largest file in GB")->check(CLI::PositiveNumber);
  add("diff", "Compare two checkpoints tensor by tensor; 65 when they differ", run_diff)
      ->add_option("OTHER", arguments->other, "Run directory or step folder to compare with")
      ->required();
}

}  // namespace longwave
