// Names, help and ranges of the scheduler's options.
#include <fmt/format.h>

#include "lib/engine/options/part_options.h"
#include "lib/schedule/policy.h"

namespace nvllm {
namespace {

constexpr int32_t kMaxStepTokens = 1'000'000;

}  // namespace

OptionList<SchedulerConfig> defragmentation_options() {
    OptionList<SchedulerConfig> list("engine");
    list.group("Memory");
    list.add("defrag-threshold", &SchedulerConfig::defrag_threshold,
             "Move blocks together when so much of the unused ones is scattered; 0: never.",
             range(0.0, 1.0));
    return list;
}

OptionList<SchedulingOptions> scheduling_options() {
    OptionList<SchedulingOptions> list("engine");
    list.group("Scheduling");
    list.add("max-num-seqs", nested(&SchedulingOptions::scheduler, &SchedulerConfig::max_num_seqs),
             "Sequences computed in one step.", range(1, 65536));
    list.add("max-num-batched-tokens", &SchedulingOptions::max_num_batched_tokens,
             "Tokens computed in one step; smaller ones let running answers go on more evenly "
             "beside long prompts.",
             takes_suffixes(), range(1, kMaxStepTokens),
             default_text(fmt::format("{}, on a GPU {}; of encoders at least their context",
                                      kCpuSteps.batched_tokens, kDeviceSteps.batched_tokens)));
    list.add("enable-chunked-prefill",
             nested(&SchedulingOptions::scheduler, &SchedulerConfig::enable_chunked_prefill),
             "Spread long prompts over several steps.");
    list.add("prefill-chunk-size",
             nested(&SchedulingOptions::scheduler, &SchedulerConfig::chunk_size),
             "Most tokens of one prompt in one step; 0: as many as the step has room for.",
             alias("long-prefill-token-threshold"), range(0, kMaxStepTokens));
    list.add("async-scheduling", &SchedulingOptions::async_scheduling,
             "On a GPU, plan each step while the one before is computed, wherever its tokens are "
             "chosen there; the same answers. Changes nothing on the CPU.");
    list.add("scheduling-policy", nested(&SchedulingOptions::scheduler, &SchedulerConfig::policy),
             "Who comes first.", choices(names_of(scheduling_policies())));
    list.add("mixed-prefill-tokens", &SchedulingOptions::mixed_prefill_tokens,
             "Tokens of prompts in a step in which answers go on, up to half more while few do, as "
             "many as answers if those are more: small ones keep answers flowing, large ones let "
             "prompts through; 0: as many as the step has room for.",
             range(0, kMaxStepTokens),
             default_text(fmt::format("0; in nvllm-serve {}, on a GPU {}",
                                      kCpuSteps.mixed_prefill_tokens,
                                      kDeviceSteps.mixed_prefill_tokens)));
    list.add("max-num-partial-prefills",
             nested(&SchedulingOptions::scheduler, &SchedulerConfig::max_num_partial_prefills),
             "Prompts that one step may leave unfinished; 0: any number.", range(0, 65536));
    list.add("step-time-target",
             nested(&SchedulingOptions::scheduler, &SchedulerConfig::step_time_target_ms),
             "Milliseconds a step should take: the tokens in it follow; 0: no target.",
             value_name("MS"), range(0.0, 60000.0));
    list.add_choice<PreemptionMode>(
        "preemption-mode", nested(&SchedulingOptions::scheduler, &SchedulerConfig::preemption_mode),
        "Whether a sequence that has to give way keeps its blocks in --swap-space or "
        "computes them again; auto: what is expected to be faster.",
        {{"auto", PreemptionMode::automatic},
         {"recompute", PreemptionMode::recompute},
         {"swap", PreemptionMode::swap}});
    return list;
}

}  // namespace nvllm
