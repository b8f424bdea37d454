// One row of processed logits (scores): at first the whole row, then the candidates that remain.
//
// Sorting 250,000 scores to find the best ones would cost more than all other steps. The row is
// therefore never sorted: scores are counted and weighed in buckets, best first, and only the
// bucket that decides (of the last candidate that stays, or of the drawn one) is gathered and
// sorted. After a cut, later steps read only the remaining candidates. The temperature is stored
// apart from the scores and not divided into them, so that no temperature overflows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace nvllm {

struct Candidate {
    float score = 0.0f;
    int32_t token_id = 0;
};

class Scores {
  public:
    // Starts with this row. It must outlive the use and may be changed through row(). Allocates
    // only if the vocabulary is larger than in all earlier calls. REQUIRES: no NaN.
    void reset(std::span<float> row);

    // The scores by token id, to be changed in place. REQUIRES: nothing else was called since
    // reset().
    std::span<float> row();

    // Multiplies the temperature: the weight of a score is exp((score - max) / temperature).
    // REQUIRES: temperature > 0.
    void divide_by(float temperature);

    // Keeps the `count` best remaining candidates and all that equal the last of them. REQUIRES:
    // count > 0, max() finite.
    void keep_top(int32_t count);
    // Keeps the smallest set of best candidates with this share of the weight, at least one; of
    // equals the lower ids. REQUIRES: max() is finite.
    void keep_weight(double share);
    // Keeps those with at least this share of the best one's weight. REQUIRES: 0 < share <= 1,
    // max() is finite.
    void keep_relative_to_best(double share);

    // Keeps scores at most `count` standard deviations (of the remaining) below the best. REQUIRES:
    // count >= 0, max() is finite.
    void keep_within_deviations(double count);
    // Keeps the smallest set with this share of the weight, of the candidates whose surprise is
    // nearest to the mean surprise, and all that are as near as the last of them. REQUIRES: max()
    // is finite.
    void keep_typical(double share);

    // Keeps those with at least this probability, and all that are equal to the best one. REQUIRES:
    // 0 < least, max() is finite.
    void keep_probable(double least);
    // Of the best 100, keeps the first whose terms of the entropy sum up to at most this share of
    // it, at least one. REQUIRES: max() is finite.
    void keep_entropy(double share);

    // Entropy of the distribution over the remaining candidates, in nats. REQUIRES: max() is
    // finite.
    double entropy();
    // The largest score; -inf when every token is forbidden.
    float max();
    // Sum of the weights of the remaining candidates. REQUIRES: max() is finite.
    double total_weight();
    // exp((score - max) / temperature) in float32; the same function of its argument on every
    // machine.
    double weight(float score) const;
    // The `count` best remaining candidates, or all if there are fewer; best first, of equals the
    // lower id first. Valid until the next call. REQUIRES: max() is finite.
    std::span<const Candidate> best(size_t count);
    // The candidate at which the running sum of weights, best first, passes `point` times the
    // total; point in [0, 1). REQUIRES: max() is finite.
    Candidate draw(double point);

  private:
    static constexpr size_t kNumBuckets = 512;
    struct Bucket {
        size_t count = 0;
        double weight = 0.0;
    };

    // The remaining scores: the row, or the part of it that was kept.
    std::span<const float> scores() const {
        return is_cut_ ? std::span<const float>(left_scores_) : row_;
    }
    int32_t token_at(size_t index) const {
        return is_cut_ ? left_ids_[index] : static_cast<int32_t>(index);
    }
    float inverse_temperature() const;
    void count_buckets();
    void weigh_buckets();
    void gather(size_t first_bucket, size_t last_bucket);
    template <typename Stays>
    void keep_if(Stays stays);
    void keep_up_to(const Candidate& last);
    // -log of a probability, `total` being the sum of all weights.
    double surprise(float score, double total) const;

    std::span<float> row_;
    std::optional<float> max_;
    double temperature_ = 1.0;
    bool is_cut_ = false;
    std::vector<float> left_scores_;  // by id
    std::vector<int32_t> left_ids_;
    bool has_counts_ = false;
    bool has_weights_ = false;
    // Best first; the one past the last is for forbidden tokens.
    std::array<Bucket, kNumBuckets + 1> buckets_{};
    std::vector<Candidate> gathered_;  // some buckets' candidates, best first
};

// Whether a row can be sampled from: `maximum` is the largest score, `token_id` the lowest id that
// has it. `valid` is false when a score is NaN or +inf, or all are -inf (or there is none).
struct RowCheck {
    bool valid = false;
    float maximum = 0.0f;
    int32_t token_id = 0;
};
RowCheck check_row(std::span<const float> row);

}  // namespace nvllm
