// Tokens of rows of logits that lie on a device: only ids and logprobs come to the host.
//
// What it chooses is what sample() chooses for the same row, state and seed; logprobs may differ in
// their last bits. Parameters that the ops lack (kernels/ops/sampling.h) are left to the host:
// which of both ways a sequence goes depends on its parameters alone. One step at a time: begin(),
// sample() for some rows, more rows, fetch(), a synchronisation of the stream, result().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/context.h"
#include "kernels/view.h"
#include "lib/base/result.h"
#include "lib/decode/sampler.h"

namespace nvllm {

class DeviceSampler {
  public:
    explicit DeviceSampler(const ComputeDevice& device);
    ~DeviceSampler();
    DeviceSampler(const DeviceSampler&) = delete;
    DeviceSampler& operator=(const DeviceSampler&) = delete;

    // Whether the device's module has the ops.
    static bool is_possible_on(const ComputeDevice& device);
    // Whether the ops know all that a sequence with these parameters needs.
    static bool can_sample(const SamplingParams& params);
    // Whether the token after one that is not known yet can be chosen too: nothing but the number
    // of tokens hangs on it.
    static bool can_expect(const SamplingParams& params);
    // A copy of the logits in scratch, which is all that sample() takes of it.
    static ConstTensorView kept_logits(const Context& context, const ConstTensorView& logits);

    // Forgets the results of the step before. REQUIRES: the stream has come to the end of its
    // fetch().
    void begin();
    // Puts the choice of one token of each row into the stream. logits: float32 [states, vocab] of
    // the device, which are overwritten; states: as they are before that token, or before another
    // that is being chosen, for rows that are `expecting` (all are not where it is empty).
    // Numbers in `expecting` count the tokens that are being chosen before. token_masks: of each
    // row, as sample() of the host has them; empty: all tokens. REQUIRES: can_sample() of each,
    // can_expect() of those that are expecting.
    void sample(const Context& context, std::span<const SequenceSamplingState* const> states,
                const TensorView& logits, std::span<const uint8_t> expecting = {},
                std::span<const std::span<const uint32_t>> token_masks = {});
    // Where the stream leaves the token of row `index`, an int32 of the device; the tokens of rows
    // that came in one call of sample() lie side by side.
    const void* token_place(size_t index) const;
    // Puts the copy of all results of the step to the host into the stream.
    void fetch(const Context& context);
    // Of row `index`, counted from begin() on; faults as sample() of the host has them. REQUIRES:
    // the stream has come to the end of fetch().
    Result<SampledToken> result(size_t index) const;

  private:
    // What one call of sample() sends and gets.
    struct Part;

    Part& next_part();
    // The part that has row `index`, which becomes its place there.
    const Part& part_of(size_t& index) const;

    ComputeDevice device_;
    std::vector<std::unique_ptr<Part>> parts_;  // kept for their memory
    size_t num_parts_ = 0;                      // of this step
};

}  // namespace nvllm
