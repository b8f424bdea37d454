// Buckets of one row of scores, the cuts, and the draw.
#include "lib/decode/scores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kNumLanes = 32;
// With this width, sorting one bucket of a real model's row is cheap.
constexpr float kBucketsPerUnit = 16.0f;
constexpr size_t kBlock = 256;

bool better(const Candidate& a, const Candidate& b) {
    return a.score > b.score || (a.score == b.score && a.token_id < b.token_id);
}

// e^-87 is about the smallest normal float, and negligible compared with the best score's 1.
constexpr float kLowestExponent = -87.0f;

// e^x for kLowestExponent <= x <= 0 to about 1e-7. Without a call or a branch, so that loops over
// it use vector registers; and without the C library, whose last bits differ between machines. |r|
// <= ln(2) / 2 makes 7 Taylor terms enough.
inline float exp_of_nonpositive(float x) {
    constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves no room for a fraction
    const float n = (x * 1.44269504f + kRounder) - kRounder;
    // ln(2) in two parts, the first of few bits, so that n times it is exact.
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float sum = 1.0f / 5040.0f;
    sum = sum * r + 1.0f / 720.0f;
    sum = sum * r + 1.0f / 120.0f;
    sum = sum * r + 1.0f / 24.0f;
    sum = sum * r + 1.0f / 6.0f;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    return sum * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

// Buckets are numbered from the best score down; the last one takes all that is far below, the one
// past it what is forbidden.
inline int32_t bucket_of(float score, float maximum, size_t num_buckets) {
    const float far = static_cast<float>(num_buckets - 1);
    const float distance = (maximum - score) * kBucketsPerUnit;
    const float bucket = distance < far ? distance : far;
    return static_cast<int32_t>(score == -kInfinity ? far + 1.0f : bucket);
}

struct RowExtremes {
    float maximum = -kInfinity;
    bool has_nan = false;
};

// Lanes keep the comparisons independent, so that compilers use vector registers.
RowExtremes scan_row(std::span<const float> row) {
    std::array<float, kNumLanes> best;
    std::array<uint32_t, kNumLanes> nan{};
    best.fill(-kInfinity);
    size_t index = 0;
    for (; index + kNumLanes <= row.size(); index += kNumLanes) {
        for (size_t lane = 0; lane < kNumLanes; ++lane) {
            const float value = row[index + lane];
            best[lane] = value > best[lane] ? value : best[lane];
            nan[lane] |= value != value ? 1u : 0u;
        }
    }
    RowExtremes result;
    for (; index < row.size(); ++index) {
        result.maximum = row[index] > result.maximum ? row[index] : result.maximum;
        result.has_nan |= row[index] != row[index];
    }
    for (size_t lane = 0; lane < kNumLanes; ++lane) {
        result.maximum = std::max(result.maximum, best[lane]);
        result.has_nan |= nan[lane] != 0;
    }
    return result;
}

}  // namespace

RowCheck check_row(std::span<const float> row) {
    const RowExtremes extremes = scan_row(row);
    if (extremes.has_nan || !std::isfinite(extremes.maximum)) return {};
    const auto found = std::find(row.begin(), row.end(), extremes.maximum);
    return {true, extremes.maximum, static_cast<int32_t>(found - row.begin())};
}

void Scores::reset(std::span<float> row) {
    row_ = row;
    max_.reset();
    temperature_ = 1.0;
    is_cut_ = false;
    has_counts_ = false;
    has_weights_ = false;
    left_scores_.reserve(row.size());
    left_ids_.reserve(row.size());
    gathered_.reserve(row.size());
}

std::span<float> Scores::row() {
    NVLLM_CHECK(!max_, "the row was already looked at");
    return row_;
}

float Scores::max() {
    if (!max_) max_ = scan_row(row_).maximum;
    return *max_;
}

void Scores::divide_by(float temperature) {
    temperature_ *= temperature;
    has_weights_ = false;
}

// A temperature so small that its inverse overflows would make 0 * inf of the best score.
float Scores::inverse_temperature() const {
    return static_cast<float>(std::min(1.0 / temperature_, 3e38));
}

double Scores::weight(float score) const {
    return exp_of_nonpositive(std::max((score - *max_) * inverse_temperature(), kLowestExponent));
}

void Scores::count_buckets() {
    if (has_counts_) return;
    const float maximum = max();
    for (Bucket& bucket : buckets_) bucket.count = 0;
    std::array<int32_t, kBlock> buckets;
    for (size_t begin = 0; begin < scores().size(); begin += kBlock) {
        const auto block = scores().subspan(begin, std::min(kBlock, scores().size() - begin));
        for (size_t i = 0; i < block.size(); ++i) {
            buckets[i] = bucket_of(block[i], maximum, kNumBuckets);
        }
        for (size_t i = 0; i < block.size(); ++i) ++buckets_[static_cast<size_t>(buckets[i])].count;
    }
    buckets_[kNumBuckets].count = 0;
    has_counts_ = true;
}

void Scores::weigh_buckets() {
    if (has_weights_) return;
    const float maximum = max();
    const float inverse = inverse_temperature();
    for (Bucket& bucket : buckets_) bucket.weight = 0.0;
    std::array<int32_t, kBlock> buckets;
    std::array<float, kBlock> weights;
    for (size_t begin = 0; begin < scores().size(); begin += kBlock) {
        const auto block = scores().subspan(begin, std::min(kBlock, scores().size() - begin));
        for (size_t i = 0; i < block.size(); ++i) {
            buckets[i] = bucket_of(block[i], maximum, kNumBuckets);
        }
        for (size_t i = 0; i < block.size(); ++i) {
            weights[i] = std::max((block[i] - maximum) * inverse, kLowestExponent);
        }
        // A loop of its own: beside the std::max above compilers make a branch of the constant
        // case.
        for (size_t i = 0; i < block.size(); ++i) weights[i] = exp_of_nonpositive(weights[i]);
        for (size_t i = 0; i < block.size(); ++i) {
            buckets_[static_cast<size_t>(buckets[i])].weight += static_cast<double>(weights[i]);
        }
    }
    has_weights_ = true;
}

// Writes the remaining candidates of these buckets to gathered_, best first.
void Scores::gather(size_t first_bucket, size_t last_bucket) {
    const float maximum = max();
    const int32_t first = static_cast<int32_t>(first_bucket),
                  last = static_cast<int32_t>(last_bucket);
    gathered_.clear();
    const std::span<const float> all = scores();
    for (size_t index = 0; index < all.size(); ++index) {
        const int32_t bucket = bucket_of(all[index], maximum, kNumBuckets);
        if (bucket >= first && bucket <= last) gathered_.push_back({all[index], token_at(index)});
    }
    std::sort(gathered_.begin(), gathered_.end(), better);
}

template <typename Stays>
void Scores::keep_if(Stays stays) {
    const std::span<const float> all = scores();
    if (!is_cut_) {
        left_scores_.resize(all.size());
        left_ids_.resize(all.size());
    }
    size_t num_kept = 0;
    for (size_t index = 0; index < all.size(); ++index) {
        const Candidate candidate{all[index], token_at(index)};
        if (!stays(candidate)) continue;
        left_scores_[num_kept] = candidate.score;
        left_ids_[num_kept++] = candidate.token_id;
    }
    left_scores_.resize(num_kept);
    left_ids_.resize(num_kept);
    is_cut_ = true;
    has_counts_ = false;
    has_weights_ = false;
}

// Cuts all candidates that are worse than `last`.
void Scores::keep_up_to(const Candidate& last) {
    keep_if([&](const Candidate& candidate) { return !better(last, candidate); });
}

void Scores::keep_top(int32_t count) {
    count_buckets();
    const size_t wanted = static_cast<size_t>(count);
    size_t num_before = 0;
    size_t bucket = 0;
    while (bucket < kNumBuckets && num_before + buckets_[bucket].count < wanted) {
        num_before += buckets_[bucket++].count;
    }
    if (bucket == kNumBuckets) return;
    gather(bucket, bucket);
    keep_up_to({gathered_[wanted - num_before - 1].score, std::numeric_limits<int32_t>::max()});
}

void Scores::keep_weight(double share) {
    const double wanted = share * total_weight();
    double sum = 0.0;
    size_t bucket = 0;
    while (bucket < kNumBuckets - 1 && sum + buckets_[bucket].weight < wanted) {
        sum += buckets_[bucket++].weight;
    }
    gather(bucket, bucket);
    for (const Candidate& candidate : gathered_) {
        sum += weight(candidate.score);
        if (sum < wanted) continue;
        keep_up_to(candidate);
        return;
    }
}

void Scores::keep_relative_to_best(double share) {
    const double exact = std::max<double>(max() + std::log(share) * temperature_,
                                          std::numeric_limits<float>::lowest());
    // The smallest float that is not below: rounding down would let others in.
    float lowest = static_cast<float>(exact);
    if (static_cast<double>(lowest) < exact) lowest = std::nextafter(lowest, kInfinity);
    keep_up_to({lowest, std::numeric_limits<int32_t>::max()});
}

void Scores::keep_within_deviations(double count) {
    double sum = 0.0, sum_of_squares = 0.0;
    size_t num_scores = 0;
    for (const float score : scores()) {
        if (score == -kInfinity) continue;
        // From the best score, so that the squares do not swallow the differences.
        const double distance = static_cast<double>(score) - max();
        sum += distance;
        sum_of_squares += distance * distance;
        ++num_scores;
    }
    const double mean = sum / static_cast<double>(num_scores);
    const double variance = sum_of_squares / static_cast<double>(num_scores) - mean * mean;
    const double reach = count * std::sqrt(std::max(variance, 0.0));
    keep_if([&](const Candidate& candidate) {
        return static_cast<double>(candidate.score) - max() >= -reach &&
               candidate.score != -kInfinity;
    });
}

double Scores::surprise(float score, double total) const {
    return std::log(total) - (static_cast<double>(score) - *max_) / temperature_;
}

double Scores::entropy() {
    const double total = total_weight();
    double sum = 0.0;
    for (const float score : scores()) {
        if (score != -kInfinity) sum += weight(score) / total * surprise(score, total);
    }
    return sum;
}

void Scores::keep_probable(double least) {
    keep_relative_to_best(std::min(1.0, least * total_weight()));
}

void Scores::keep_entropy(double share) {
    constexpr size_t kMaxLooked = 100;
    max();
    const std::span<const Candidate> all = best(kMaxLooked);
    double total = 0.0, entropy = 0.0, sum = 0.0;
    for (const Candidate& candidate : all) total += weight(candidate.score);
    const auto term = [&](const Candidate& candidate) {
        return weight(candidate.score) / total * surprise(candidate.score, total);
    };
    for (const Candidate& candidate : all) entropy += term(candidate);
    Candidate last = all.front();
    for (const Candidate& candidate : all) {
        sum += term(candidate);
        if (sum > share * entropy) break;
        last = candidate;
    }
    keep_up_to(last);
}

void Scores::keep_typical(double share) {
    const double total = total_weight();
    const double mean = entropy();
    best(row_.size());
    const auto distance = [&](float score) { return std::fabs(surprise(score, total) - mean); };
    std::sort(gathered_.begin(), gathered_.end(), [&](const Candidate& a, const Candidate& b) {
        const double first = distance(a.score), second = distance(b.score);
        return first < second || (first == second && a.token_id < b.token_id);
    });
    double sum = 0.0;
    double farthest = 0.0;
    for (const Candidate& candidate : gathered_) {
        farthest = distance(candidate.score);
        sum += weight(candidate.score) / total;
        if (sum >= share) break;
    }
    keep_if([&](const Candidate& candidate) {
        return candidate.score != -kInfinity && distance(candidate.score) <= farthest;
    });
}

double Scores::total_weight() {
    weigh_buckets();
    double total = 0.0;
    for (size_t bucket = 0; bucket < kNumBuckets; ++bucket) total += buckets_[bucket].weight;
    return total;
}

std::span<const Candidate> Scores::best(size_t count) {
    count_buckets();
    size_t num_covered = 0;
    size_t bucket = 0;
    while (bucket < kNumBuckets && num_covered < count) num_covered += buckets_[bucket++].count;
    gather(0, bucket - 1);
    return std::span<const Candidate>(gathered_).first(std::min(count, gathered_.size()));
}

Candidate Scores::draw(double point) {
    const double target = point * total_weight();
    double sum = 0.0;
    size_t bucket = 0;
    size_t last_bucket = 0;
    for (; bucket < kNumBuckets && sum + buckets_[bucket].weight <= target; ++bucket) {
        sum += buckets_[bucket].weight;
        if (buckets_[bucket].weight > 0.0) last_bucket = bucket;
    }
    bucket = std::min(bucket, kNumBuckets - 1);
    gather(bucket, bucket);
    for (const Candidate& candidate : gathered_) {
        sum += weight(candidate.score);
        if (sum > target) return candidate;
    }
    // A bucket was summed in another order than it is walked: a target at its very end may lie past
    // its last candidate.
    if (gathered_.empty()) gather(last_bucket, last_bucket);
    return gathered_.back();
}

}  // namespace nvllm
