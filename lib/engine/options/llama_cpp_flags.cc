// The table of flags that llama.cpp's programs share.
#include <array>

#include "lib/engine/options/neighbour_flags.h"
#include "lib/engine/options/neighbour_reasons.h"

namespace nvllm {
namespace {

using enum ForeignValues;

constexpr auto kSwitchWords = "on off auto 0 1 true false enabled disabled";
constexpr auto kMapped = "weights are mapped from their files";
constexpr auto kWholeModel =
    "a model is on one device as a whole: --device cuda for a GPU, --device cpu for none";
constexpr auto kWaysToDivide =
    "--tensor-parallel-size and --pipeline-parallel-size divide a model evenly";
constexpr auto kNoGguf =
    "GGUF files are not read: 'hf download org/name' brings the model's safetensors, and -m "
    "org/name takes them";
constexpr auto kNoThreadPolicy = "compute threads wait for work with the system's own priorities";

constexpr auto kLlamaCppFlags = std::to_array<ForeignFlag>({
    foreign_ignored("-c --ctx-size", one, "the model's own context, or what fits, is the default",
                    "0"),
    foreign_alias("-c --ctx-size", one, "max-model-len"),
    foreign_ignored("-b --batch-size", one, "-ub, --max-num-batched-tokens, is what a step has"),
    foreign_alias("-ub --ubatch-size", one, "max-num-batched-tokens"),
    foreign_alias("-np --parallel", one, "max-num-seqs"),
    foreign_alias("-ctk --cache-type-k", one, "kv-cache-dtype=float16", "f16"),
    foreign_alias("-ctk --cache-type-k", one, "kv-cache-dtype=float32", "f32"),
    foreign_alias("-ctk --cache-type-k", one, "kv-cache-dtype=bfloat16", "bf16"),
    foreign_alias("-ctk --cache-type-k", one, "kv-cache-dtype=int8", "q8_0"),
    foreign_refused("-ctk --cache-type-k", one,
                    "keys and values are kept as --kv-cache-dtype says: float32, bfloat16, "
                    "float16, fp8 or int8"),
    foreign_ignored("-ctv --cache-type-v", one,
                    "keys and values have one type, that of -ctk or --kv-cache-dtype"),
    foreign_refused("-ngl --gpu-layers --n-gpu-layers", one, kWholeModel),
    foreign_refused("-ncmoe --n-cpu-moe -ot --override-tensor", one, kWholeModel),
    foreign_refused("-cmoe --cpu-moe", none, kWholeModel),
    foreign_refused("-sm --split-mode -mg --main-gpu -ts --tensor-split", one, kWaysToDivide,
                    "none 0"),
    foreign_alias("-dev", one, "device"),
    foreign_refused("--list-devices", none, "nvllm-inspect doctor lists devices"),
    foreign_alias("-tb --threads-batch", one, "threads"),
    foreign_refused("-Cr --cpu-range -Cb --cpu-mask-batch -Crb --cpu-range-batch", one,
                    "--cpu-mask takes a mask or a list such as 0-3"),
    foreign_ignored("--cpu-strict --cpu-strict-batch --prio --prio-batch --poll --poll-batch", one,
                    kNoThreadPolicy),
    ForeignFlag{"-fa --flash-attn", maybe_one, ForeignMeaning::ignored,
                "attention is always computed that way", kSwitchWords},
    foreign_ignored("--mlock --no-mmap --mmap --direct-io -dio", none, kMapped),
    foreign_ignored("--repack --no-repack --no-host --no-op-offload --op-offload", none,
                    "weights are ordered for the device by themselves"),
    foreign_ignored("--no-kv-offload -nkvo --kv-offload -kvo --kv-unified -kvu --swa-full", none,
                    "the key-value cache lies where the model is computed"),
    foreign_ignored("--check-tensors --warmup --no-warmup --no-perf --perf", none,
                    "weights are checked when they are read, and nothing is warmed up"),
    foreign_ignored("-cb --cont-batching --no-cont-batching -nocb --offline", none,
                    "requests are always batched as they come, and nothing is downloaded"),
    foreign_ignored("-fit --fit -fitt --fit-target -fitc --fit-ctx", one,
                    "the context is always cut to what fits"),
    foreign_ignored("-dt --defrag-thold", one, "--defrag-threshold moves blocks together"),
    foreign_refused("--keep --context-shift --no-context-shift", none,
                    "an answer ends where the context does"),
    foreign_alias("-hf -hfr --hf-repo", one, "model"),
    foreign_alias("-hfd -hfrd --hf-repo-draft", one, "draft-model"),
    foreign_refused("-hff --hf-file -mu --model-url -dr --docker-repo", one, kNoGguf),
    foreign_ignored("-hft --hf-token", one, "nothing is downloaded"),
    foreign_refused("--lora --lora-scaled --lora-base", one,
                    "adapters are read in PEFT's format: --lora-modules NAME=FOLDER"),
    foreign_refused("--control-vector --control-vector-scaled", one,
                    "control vectors are not supported"),
    foreign_alias("-md --model-draft --spec-draft-model", one, "draft-model"),
    foreign_ignored("-devd --device-draft -ngld --gpu-layers-draft", one, kDraftsAlike),
    foreign_ignored("-cd --ctx-size-draft", one, "the draft model reads what the model reads"),
    foreign_alias("--draft --draft-n --draft-max --spec-draft-n-max", one,
                  "num-speculative-tokens"),
    foreign_ignored("--draft-min --draft-n-min --draft-p-min --spec-draft-n-min "
                    "--spec-draft-p-min",
                    one, "how many tokens are proposed is decided in each step"),
    foreign_ignored("--spec-type", one, "nothing is proposed without an option that says so",
                    "none"),
    foreign_alias("--spec-type", one, "speculative-method=ngram",
                  "ngram-cache ngram-simple ngram-map-k ngram-map-k4v ngram-mod"),
    foreign_refused("--spec-type", one, "--speculative-method has the methods there are"),
    foreign_refused("-mm --mmproj -mmu --mmproj-url --image --audio", one, kTextOnly),
    foreign_refused("--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale "
                    "--yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow "
                    "--yarn-beta-fast --override-kv",
                    one, kReadAsItIs),
    foreign_ignored("--jinja --no-jinja", none, "chat templates are always Jinja"),
    foreign_alias("--chat-template-file", one, "chat-template"),
    foreign_refused("--reasoning-format -rea --reasoning --reasoning-budget", one,
                    "reasoning is not told apart from the answer yet", "none -1 auto"),
    foreign_refused("--grammar --grammar-file -j --json-schema -jf --json-schema-file", one,
                    "each request says what its answer is held to"),
});

}  // namespace

std::span<const ForeignFlag> llama_cpp_engine_flags() { return kLlamaCppFlags; }

}  // namespace nvllm
