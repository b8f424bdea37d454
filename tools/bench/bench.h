// What every sub-command of nvllm-bench shares: its place in the table, model, environment, output.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/cli/commands.h"
#include "lib/cli/options.h"
#include "lib/cli/progress.h"
#include "lib/engine/engine_config.h"
#include "lib/engine/options/engine_options.h"
#include "lib/measure/adapter_load.h"
#include "lib/measure/engine_load.h"
#include "lib/measure/workload.h"
#include "tools/bench/neighbour_flags.h"

namespace nvllm::bench {

inline constexpr const char* kOutputJsonHelp =
    "Write the result, with the environment it was measured in, as JSON; - for standard output, "
    "where nothing else is written then.";

// Options of every sub-command that writes results.
struct ResultOptions {
    std::optional<std::filesystem::path> output_json;
    uint64_t seed = 0;
    int32_t repeats = 3;
};

OptionList<ResultOptions> result_options();
OptionList<WorkloadOptions> workload_options();
OptionList<AdapterChoice> adapter_options();
// Throws usage where one of these options would say nothing.
void check_adapter_choice(OptionSet& options, const AdapterChoice& choice, bool has_adapters);
// Requests per second; infinity of "inf". Throws usage that names --request-rate.
double parse_request_rate(const std::string& text);

// Reads a sub-command's options and the engine's, as answered() of commands.h does.
template <typename Own>
bool answered(const Invocation& invocation, const OptionList<Own>& own_list, Own& own,
              EngineConfig& config) {
    OptionSet options;
    options.add(own_list, own);
    options.add(engine_options(), config);
    add_neighbour_flags(options);
    return nvllm::answered(invocation, options);
}

// The bundled demo when no model was named, said on stderr.
void choose_model(EngineConfig& config);

// An engine, after its notices were printed on stderr. Throws cannot_create when the result could
// not be written: before anything is measured. Throws what refuse_adapters() does unless
// `uses_adapters`.
std::unique_ptr<Engine> start_engine(const EngineConfig& config,
                                     const std::optional<std::filesystem::path>& result_file,
                                     bool uses_adapters = false);
// Throws usage where there are adapters that no request would have.
void refuse_adapters(const EngineConfig& config);

// Throws cannot_create when the file cannot be written; leaves what is in it.
void check_writable(const std::optional<std::filesystem::path>& file);

// Writes the object to --output-json, if that was given. Throws cannot_create or io.
void write_result(const nlohmann::ordered_json& result,
                  const std::optional<std::filesystem::path>& file);
// Prints what people read: on standard error where standard output is the JSON's (--output-json -,
// or /dev/stdout). Throws as write_output.
void print_result(const std::string& text, const std::optional<std::filesystem::path>& file);

// How far a command has come, on standard error: a line that is drawn anew on a terminal, elsewhere
// one now and then. Gone from a terminal when the object is, which is before a table is printed.
class BenchProgress {
  public:
    BenchProgress(std::string unit, size_t total)
        : progress_(std::move(unit), total, clock_, {.shows_counts = true, .line_every_s = 10.0}) {}
    void update(size_t done) { progress_.update(done); }

  private:
    MonotonicClock clock_;
    Progress progress_;
};

// "environment" of a result.
nlohmann::ordered_json environment_of(const Invocation& invocation, const EngineConfig* config);

// Prints the table with the environment below it, and writes the object, with the environment in
// it, to --output-json. What a stop signal cut short is marked as partial in both. Returns the
// program's exit code: 0, or that of the signal. Throws cannot_create or io.
int publish(const Invocation& invocation, const EngineConfig* config, const std::string& table,
            nlohmann::ordered_json result, const std::optional<std::filesystem::path>& file);

// The sub-commands, one file each.
int run_throughput(const Invocation& invocation);
int run_latency(const Invocation& invocation);
int run_micro(const Invocation& invocation);
int run_perplexity(const Invocation& invocation);
int run_task(const Invocation& invocation);
int run_startup(const Invocation& invocation);
int run_compare(const Invocation& invocation);
int run_plot(const Invocation& invocation);
int run_sweep(const Invocation& invocation);
int run_serve(const Invocation& invocation);
int run_trace(const Invocation& invocation);
int run_kernels(const Invocation& invocation);
int run_machine(const Invocation& invocation);
int run_grammar(const Invocation& invocation);

}  // namespace nvllm::bench
