// Ranges of sampling parameters: what SamplingParams::check() keeps, and what interfaces say of it.
//
// They are those of the OpenAI API where it has them; the rest keeps a request from filling memory
// with a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace nvllm::sampling_limits {

// Both ends belong to it.
struct Counts {
    int32_t least;
    int32_t most;
};

struct Numbers {
    float least;
    float most;
    bool is_above = false;  // `least` itself is out of range
};

inline constexpr int32_t kUnbounded = std::numeric_limits<int32_t>::max();

inline constexpr Counts kN = {1, 128};
inline constexpr Counts kBestOf = {1, 128};  // and at least n
inline constexpr Counts kTopK = {0, kUnbounded};
inline constexpr Counts kMaxTokens = {1, kUnbounded};
inline constexpr Counts kMinTokens = {0, kUnbounded};  // and at most max_tokens
inline constexpr Counts kMinLength = {0, kUnbounded};
inline constexpr Counts kNoRepeatNgramSize = {0, kUnbounded};
inline constexpr Counts kLogprobs = {0, kUnbounded};  // no more are there than the vocabulary has

inline constexpr Numbers kTemperature = {0.0f, 2.0f};
inline constexpr Numbers kTopP = {0.0f, 1.0f, true};
inline constexpr Numbers kMinP = {0.0f, 1.0f};
inline constexpr Numbers kTypicalP = {0.0f, 1.0f, true};
inline constexpr Numbers kTopNSigma = {0.0f, 100.0f};
inline constexpr Numbers kTopH = {0.0f, 1.0f};
inline constexpr Numbers kCutoff = {0.0f, 1.0f};
inline constexpr Numbers kEndBoost = {0.0f, 10.0f, true};
inline constexpr Numbers kRepetitionPenalty = {0.0f, 10.0f, true};
inline constexpr Numbers kPresencePenalty = {-2.0f, 2.0f};
inline constexpr Numbers kFrequencyPenalty = {-2.0f, 2.0f};
inline constexpr Numbers kLengthPenalty = {-10.0f, 10.0f};
inline constexpr Numbers kBias = {-100.0f, 100.0f};

inline constexpr size_t kMaxStopStrings = 1024;
inline constexpr size_t kLongestStopStringBytes = 4096;
// Of all together: each new token is looked at once for each of these bytes.
inline constexpr size_t kMaxStopBytes = 16 * 1024;
inline constexpr size_t kMaxStopTokens = 1024;
inline constexpr size_t kMaxBiases = 1024;
inline constexpr size_t kMaxBadWords = 1024;
inline constexpr size_t kLongestBadWordTokens = 64;

}  // namespace nvllm::sampling_limits
