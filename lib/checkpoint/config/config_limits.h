// The largest sizes that a config.json may state: nothing is allocated from a size beyond them.
#pragma once

#include <cstdint>

namespace nvllm {

constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;  // of the file

constexpr int64_t kMaxVocab = int64_t{4} << 20;
constexpr int64_t kMaxHidden = 262144;
constexpr int64_t kMaxIntermediate = int64_t{1} << 20;  // of all heads together too
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 8192;
constexpr int64_t kMaxHeadDim = 8192;
constexpr int64_t kMaxPositions = int64_t{1} << 30;
constexpr int64_t kMaxExperts = 4096;
constexpr double kMaxTheta = 1e15;  // of RoPE
constexpr int64_t kMaxTaps = 64;    // of a convolution

}  // namespace nvllm
