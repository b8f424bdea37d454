// A row of scores in a block's hands: selection by count or weight without sorting. For .cu files
// only.
//
// A candidate is a code of 64 bits: the score's bits so turned that better scores are smaller, then
// the token's id. Quantized values of a row are all different and in the order "best first, of
// equals the lower id", so every cut and every draw is the search for one code. Weights are whole
// numbers (units of 2^-40 of the best), and sums of them by integer atomics are exact in any order.
//
// A search takes one pass over the row that counts and weighs linear buckets of the distance to the
// best score, and one that gathers the bucket in which something is decided into shared memory,
// where it is settled. A bucket that does not fit, as of a row of equals, is split by 11 bits of
// the code at a time, one pass each.
#pragma once

#include "kernels/cuda/elements.h"

namespace nvllm::cuda {

using Weight = unsigned long long;

constexpr int kSamplingThreads = 512;
constexpr int kBuckets = 2048;
constexpr int kBucketBits = 11;
constexpr int kMaxGathered = 1024;
constexpr float kBucketsPerUnit = 32.0f;
constexpr uint64_t kNoLimit = ~uint64_t{0};

__device__ __forceinline__ uint64_t quantized_of_value(float score, int token) {
    const uint32_t bits = gpu::float_as_bits(score == 0.0f ? 0.0f : score);  // -0 equals 0
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return uint64_t{~ascending} << 32 | static_cast<uint32_t>(token);
}
__device__ __forceinline__ float score_of(uint64_t code) {
    const uint32_t ascending = ~static_cast<uint32_t>(code >> 32);
    return gpu::bits_as_float((ascending >> 31) != 0 ? ascending & 0x7fffffffu : ~ascending);
}
__device__ __forceinline__ int token_of(uint64_t code) {
    return static_cast<int>(static_cast<uint32_t>(code));
}

struct SamplingShared {
    Weight* weights;   // [kBuckets]
    uint32_t* counts;  // [kBuckets]
    uint64_t* codes;   // [kMaxGathered]
    uint64_t* result;  // [4]
};

// Declares a block's shared memory as `name`.
#define NVLLM_SAMPLING_SHARED(name)                     \
    GPU_SHARED(Weight, name##_weights, [kBuckets]);     \
    GPU_SHARED(uint32_t, name##_counts, [kBuckets]);    \
    GPU_SHARED(uint64_t, name##_codes, [kMaxGathered]); \
    GPU_SHARED(uint64_t, name##_result, [4]);           \
    const SamplingShared name { name##_weights, name##_counts, name##_codes, name##_result }

// One row, of which candidates above `limit` are cut away. All members are the same in every
// thread.
struct SamplingScores {
    const float* scores;
    int vocab;
    bool aligned;
    float best;
    float factor;  // log2(e) / temperature
    uint64_t limit;

    // body(score, token) for this thread's part of the row. Several loads are under way at once: a
    // row is one block's, and its time that of one load after the other.
    template <typename Body>
    __device__ __forceinline__ void for_each(const Body& body) const {
        constexpr int kAtOnce = 4;
        constexpr int kStep = kSamplingThreads * 4;
        for (int first = static_cast<int>(threadIdx.x) * 4; first < vocab;
             first += kStep * kAtOnce) {
            float values[kAtOnce][4];
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) load(first + i * kStep, values[i]);
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int token = first + i * kStep + j;
                    if (token < vocab) body(values[i][j], token);
                }
            }
        }
    }
    __device__ __forceinline__ void load(int first, float (&values)[4]) const {
        if (aligned && first < vocab) return load_packed(scores + first, values);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            values[i] = first + i < vocab ? scores[first + i] : -INFINITY;
        }
    }
    // body(code) for those that are left.
    template <typename Body>
    __device__ __forceinline__ void for_each_left(const Body& body) const {
        for_each([&](float score, int token) {
            if (score == -INFINITY) return;
            const uint64_t code = quantized_of_value(score, token);
            if (code <= limit) body(code);
        });
    }

    __device__ __forceinline__ Weight weight(uint64_t code) const {
        const float exponent = (score_of(code) - best) * factor;
        if (exponent < -120.0f) return 0;
        return static_cast<Weight>(gpu::fast_exp2(exponent) * 0x1.0p40f + 0.5f);
    }
    __device__ __forceinline__ int bucket(uint64_t code) const {
        const float distance = (best - score_of(code)) * kBucketsPerUnit;
        return distance < kBuckets - 1 ? static_cast<int>(distance) : kBuckets - 1;
    }
};

// Which candidates a search still looks at: a bucket, and quantized values with the same upper
// bits.
struct SearchPart {
    int bucket = -1;  // all
    int shift = 64;
    uint64_t prefix = 0;  // code >> shift; anything at 64

    __device__ __forceinline__ bool has(const SamplingScores& row, uint64_t code) const {
        if (bucket >= 0 && row.bucket(code) != bucket) return false;
        return shift == 64 || code >> shift == prefix;
    }
};

enum class SelectBy { count, weight };

// What is found: the candidate with which the sum passes the target.
struct Selected {
    uint64_t code = 0;
    bool found = false;
};

// The bin, of kBuckets in ascending order, in which the sum passes `target`: result[0]; the target
// from there on: result[1]; how many candidates it holds: result[2]. result[0] is kBuckets when it
// passes in none. By the first warp.
__device__ __forceinline__ void find_bin(const SamplingShared& shared, SelectBy by,
                                         uint64_t target) {
    constexpr int kPerLane = kBuckets / 32;
    const auto amount = [&](int bin) -> Weight {
        return by == SelectBy::count ? shared.counts[bin] : shared.weights[bin];
    };
    const int lane = gpu::lane_id();
    Weight own = 0;
    for (int i = 0; i < kPerLane; ++i) own += amount(lane * kPerLane + i);
    Weight up_to = own;
    for (int distance = 1; distance < 32; distance *= 2) {
        const Weight before = gpu::shuffle_up(up_to, distance);
        if (lane >= distance) up_to += before;
    }
    const uint32_t passed = gpu::ballot(up_to > target);
    if (passed == 0) {
        if (lane == 0) shared.result[0] = kBuckets;
        return;
    }
    if (lane != gpu::count_trailing_zeros(passed)) return;
    Weight sum = up_to - own;
    int bin = lane * kPerLane;
    while (sum + amount(bin) <= target) sum += amount(bin++);
    shared.result[0] = static_cast<uint64_t>(bin);
    shared.result[1] = target - sum;
    shared.result[2] = shared.counts[bin];
}

// Counts and weighs the candidates of `part` in bins of bin_of(code).
template <typename BinOf>
__device__ __forceinline__ void fill_bins(const SamplingScores& row, const SamplingShared& shared,
                                          const SearchPart& part, SelectBy by,
                                          const BinOf& bin_of) {
    for (int bin = static_cast<int>(threadIdx.x); bin < kBuckets; bin += kSamplingThreads) {
        shared.weights[bin] = 0;
        shared.counts[bin] = 0;
    }
    __syncthreads();
    row.for_each_left([&](uint64_t code) {
        if (!part.has(row, code)) return;
        const int bin = bin_of(code);
        gpu::atomic_add(&shared.counts[bin], 1u);
        if (by == SelectBy::weight) gpu::atomic_add(&shared.weights[bin], row.weight(code));
    });
    __syncthreads();
}

// Gathers the candidates of `part`, which fit, in any order; their number.
__device__ __forceinline__ int gather(const SamplingScores& row, const SamplingShared& shared,
                                      const SearchPart& part) {
    if (threadIdx.x == 0) shared.counts[0] = 0;
    __syncthreads();
    row.for_each_left([&](uint64_t code) {
        if (!part.has(row, code)) return;
        const uint32_t place = gpu::atomic_add(&shared.counts[0], 1u);
        if (place < kMaxGathered) shared.codes[place] = code;
    });
    __syncthreads();
    return static_cast<int>(shared.counts[0]);
}

// Among the gathered candidates the one with which the sum passes `target`.
__device__ __forceinline__ void settle(const SamplingScores& row, const SamplingShared& shared,
                                       int count, SelectBy by, uint64_t target) {
    const auto amount = [&](uint64_t code) -> Weight {
        return by == SelectBy::count ? 1 : row.weight(code);
    };
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kSamplingThreads) {
        const uint64_t own = shared.codes[i];
        Weight before = 0;
        for (int j = 0; j < count; ++j) {
            if (shared.codes[j] < own) before += amount(shared.codes[j]);
        }
        if (before <= target && target < before + amount(own)) shared.result[3] = own;
    }
    __syncthreads();
}

// The candidate, best first, with which the sum of counts or weights passes `target`. All threads
// of the block call it and get the result. Results are written behind the barriers of whatever
// fills bins or gathers, and so after those before have been read.
__device__ inline Selected select(const SamplingScores& row, const SamplingShared& shared,
                                  SelectBy by, uint64_t target) {
    SearchPart part;
    fill_bins(row, shared, part, by, [&](uint64_t code) { return row.bucket(code); });
    if (gpu::warp_id() == 0) find_bin(shared, by, target);
    __syncthreads();
    if (shared.result[0] == kBuckets) return {};
    part.bucket = static_cast<int>(shared.result[0]);
    target = shared.result[1];
    uint64_t count = shared.result[2];
    while (count > kMaxGathered) {
        const int width = part.shift < kBucketBits ? part.shift : kBucketBits;
        const int shift = part.shift - width;
        fill_bins(row, shared, part, by, [&](uint64_t code) {
            return static_cast<int>(code >> shift & ((1u << width) - 1));
        });
        if (gpu::warp_id() == 0) find_bin(shared, by, target);
        __syncthreads();
        part.prefix = (part.shift == 64 ? 0 : part.prefix << width) | shared.result[0];
        part.shift = shift;
        target = shared.result[1];
        count = shared.result[2];
    }
    const int gathered = gather(row, shared, part);
    settle(row, shared, gathered, by, target);
    return {shared.result[3], true};
}

// The sum of the weights of all that is left, in every thread.
__device__ __forceinline__ Weight total_weight(const SamplingScores& row, Weight* shared) {
    Weight sum = 0;
    row.for_each_left([&](uint64_t code) { sum += row.weight(code); });
    return gpu::block_sum(sum, shared);
}

// What a row can be sampled from: `valid` is false when a score is NaN or +infinity, or all are
// -infinity. `code` is the best candidate's.
struct BestScore {
    uint64_t code;
    bool valid;
};
__device__ __forceinline__ BestScore find_best(const SamplingScores& row, uint64_t* shared) {
    uint64_t best = kNoLimit;
    int wrong = 0;
    row.for_each([&](float score, int token) {
        wrong |= score != score || score == INFINITY ? 1 : 0;
        const uint64_t code = quantized_of_value(score, token);
        if (score != -INFINITY && code < best) best = code;
    });
    // The best is the largest of the complements.
    best = ~static_cast<uint64_t>(
        gpu::block_max(static_cast<Weight>(~best), reinterpret_cast<Weight*>(shared)));
    const int any_wrong = static_cast<int>(
        gpu::block_max(static_cast<Weight>(wrong), reinterpret_cast<Weight*>(shared)));
    return {best, best != kNoLimit && any_wrong == 0};
}

}  // namespace nvllm::cuda
