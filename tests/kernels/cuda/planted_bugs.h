// Kernels that are wrong on purpose, one mistake each, so that the emulation can be seen to find
// it.
#pragma once

#include <cstdint>

namespace planted {

enum class Bug {
    none,  // the pipeline without a mistake, for comparison
    no_barrier_before_use,
    no_barrier_at_end_of_stage,
    wait_one_too_high,
    source_overwritten_in_flight,
    thread_ends_before_barrier,
    divergent_barrier,
    barrier_in_half_a_warp,
    copy_never_waited_for,
    lane_not_in_own_mask,
    mask_names_ended_lane,
    mask_beyond_block,
    shuffle_of_lane_outside_mask,
    unequal_masks,
    different_operations_meet,
    shuffle_orders_no_memory,
    static_array_overrun,
    dynamic_memory_overrun,
    no_dynamic_memory_asked_for,
    misaligned_load,
    misaligned_matrix_row,
    misaligned_copy,
    matrix_row_in_global_memory,
    places_out_of_order,
    lost_updates,
    blocks_write_the_same,
    blocks_hand_over_without_fence,
    poll_for_nothing,
};

constexpr int kWords = 256;

// Runs the kernel with this bug over in[kWords] and out[kWords], both aligned to 16 bytes.
void run(Bug bug, const uint32_t* in, uint32_t* out);

// The same with the mistake put right, for the bugs that have such a twin: blocks that hand over
// with a fence, and lanes ordered by sync_warp().
void run_blocks_with_fence(const uint32_t* in, uint32_t* out);
void run_lanes_in_order(const uint32_t* in, uint32_t* out);

// Reads shared memory along rows of `stride` words, one row a lane: stride 32 puts all lanes into
// one bank.
void read_shared_columns(int stride, uint32_t* out);
// Reads in[lane * stride].
void read_global_with_stride(const uint32_t* in, int stride, uint32_t* out);

}  // namespace planted
