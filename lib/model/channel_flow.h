// Where the channels that linears read come from, as a family's block states it: what may be scaled
// on one side if the other makes up for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nvllm {

// One way of channels within a block. Whatever the writer's channel is divided by, the readers'
// columns of that channel can be multiplied with, and nothing changes but rounding. Names are the
// checkpoint's, without ".weight".
struct ChannelFlow {
    enum class Writer : uint8_t { norm, linear };

    Writer kind = Writer::norm;
    std::string writer;
    // All linears that read these channels; no other op reads them.
    std::vector<std::string> readers;
    int64_t channels = 0;
    int64_t first_row = 0;       // of a linear: its rows from here on write the channels
    float weight_offset = 0.0f;  // of a norm, whose weights are stored less this
    // Columns of a reader for each channel of the writer: queries that share a head of values.
    int64_t columns_per_channel = 1;
};

}  // namespace nvllm
