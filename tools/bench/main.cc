// nvllm-bench: measures the engine, any OpenAI server, single kernels, and the quality of models.
#include <fmt/format.h>

#include "lib/cli/commands.h"
#include "lib/cli/main_guard.h"
#include "lib/server/config/shared_sections.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

const ProgramDescription kProgram = {
    .name = "nvllm-bench",
    .version = NVLLM_VERSION,
    .summary =
        "Measures speed and quality. Tables go to standard output, everything else to standard "
        "error; --output-json FILE keeps the result with the environment it was measured in. "
        "Without a command, throughput is measured.",
    .examples =
        "  nvllm-bench --batch 64\n"
        "  nvllm-bench throughput -m model --batching both --random-range-ratio 0.8\n"
        "  nvllm-bench micro -m model -p 512 -n 128\n",
    .sections = server::shared_sections,
};

const std::vector<Command> kCommands = {
    {"throughput", "How fast a fixed set of requests is done.", run_throughput,
     "  nvllm-bench throughput --batch 64\n"
     "  nvllm-bench throughput --batching both --random-range-ratio 0.8\n"},
    {"latency", "How long one batch takes.", run_latency,
     "  nvllm-bench latency --batch-size 1 --input-len 32 --output-len 128\n"},
    {"micro", "Prompt processing and generation alone, as llama-bench.", run_micro,
     "  nvllm-bench micro -p 512 -n 128 -r 5\n"
     "  nvllm-bench micro -p 0 -n 32 -d 0-1024+512 -o json\n"},
    {"perplexity", "How well a model predicts a text.", run_perplexity,
     "  nvllm-bench perplexity -m model -f wiki.test.raw\n"
     "  nvllm-bench perplexity -m model -f wiki.test.raw --ppl-convention llama.cpp -c 512\n"},
    {"task", "Multiple choice by log-likelihood, with lm-eval's arithmetic.", run_task,
     "  nvllm-bench task questions.jsonl -m model\n"},
    {"startup", "From a fresh process to a ready engine and the first token.", run_startup,
     "  nvllm-bench startup -m model --repeats 10\n"},
    {"compare", "Two results: ratios, intervals, and which figures differ.", run_compare,
     "  nvllm-bench compare before.json after.json\n"},
    {"plot", "Charts of results as self-contained SVG.", run_plot,
     "  nvllm-bench plot sweep.jsonl -o latency.svg\n"
     "  nvllm-bench plot --kind roofline kernels.json -o roofline.svg\n"},
    {"sweep", "Another command over a grid of flags.", run_sweep,
     "  nvllm-bench sweep latency --vary batch-size=1,4,16 --set output-len=64 -o sweep.jsonl\n"},
    {"serve", "Load on any OpenAI server: what its users feel.", run_serve,
     "  nvllm-bench serve --base-url http://127.0.0.1:8000 --request-rate 4 --num-prompts 100\n"
     "  nvllm-bench serve --backend openai-chat --max-concurrency 16 --goodput ttft:200\n"},
    {"trace", "Replays a timed trace in Mooncake's format.", run_trace,
     "  nvllm-bench trace conversation_trace.jsonl -m model --time-scale 0.1 --limit 100\n"},
    {"kernels", "Each CPU op beside the limit of memory or arithmetic.", run_kernels,
     "  nvllm-bench kernels --filter matmul --output-json kernels.json\n"
     "  nvllm-bench plot --kind roofline kernels.json -o roofline.svg\n"},
    {"machine", "What the ranks of a machine can do: rates and links, for predictions.",
     run_machine,
     "  nvllm-bench machine --tensor-parallel-size 2 --output-json machine.json\n"
     "  nvllm-inspect topology --machine machine.json --devices 2\n"},
    {"grammar", "What holding answers to JSON schemas costs; no model runs.", run_grammar,
     "  nvllm-bench grammar schemas.jsonl -m model\n"
     "  nvllm-bench grammar schemas.jsonl --walks 10 --output-json -\n"},
};

int run_program(int argc, char** argv) {
    try {
        return run_command(kProgram, kCommands, argc, argv, "throughput");
    } catch (const Interrupted& interrupted) {
        return exit_code_for_signal(interrupted.signal);
    }
}

}  // namespace
}  // namespace nvllm::bench

int main(int argc, char** argv) {
    return nvllm::run_main("nvllm-bench", [&] { return nvllm::bench::run_program(argc, argv); });
}
