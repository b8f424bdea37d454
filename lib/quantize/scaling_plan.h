// Which channels a modifier scales: its mappings against the dataflow that the model states.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/quantize/hooked_model.h"
#include "lib/quantize/recipe.h"

namespace nvllm::quantize {

// One flow whose channels are scaled, by indices of the model's linears.
struct ScaledFlow {
    int32_t block = 0;
    const ChannelFlow* flow = nullptr;  // the model's
    std::optional<size_t> writer;       // empty: a norm
    std::vector<size_t> readers;
};

// In the order they are folded in. Without mappings: of awq all flows, of smoothquant those behind
// norms, but for values that several heads share. `notes`: gets what is left out. Throws bad_data
// that names the mapping for one whose smooth side writes nothing that its balance side reads, that
// forgets a reader, or that names one too many; and for a model that states no flow.
std::vector<ScaledFlow> flows_to_scale(const Modifier& modifier, const HookedModel& model,
                                       std::vector<std::string>& notes);

}  // namespace nvllm::quantize
