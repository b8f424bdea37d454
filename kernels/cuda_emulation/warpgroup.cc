// Products of a warpgroup, computed by each of its warps for its sixteen rows, in the wait: as late
// as they may be. Until then the accumulators hold NaN.
//
// That the four warps call alike is not checked.
#include "kernels/cuda_emulation/warpgroup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "kernels/cuda_emulation/accesses.h"
#include "kernels/cuda_emulation/collective.h"
#include "kernels/cuda_emulation/keywords.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"
#include "kernels/cuda_emulation/settings.h"
#include "kernels/cuda_emulation/shared_memory.h"

namespace nvllm::gpu {

namespace emulation {

namespace {

constexpr int kDepth = 16;
constexpr int kWarpRows = 16;
constexpr uint32_t kElementBytes = 2;

struct Row {
    double at[kDepth];
};

using Decode = float (*)(uint16_t bits);

struct Product {
    float* d = nullptr;
    int columns = 0;
    uint64_t a = 0;
    uint64_t b = 0;
    Decode decode = nullptr;
    Origin origin = nullptr;
    Site where;
};

// A lane's products, oldest first, and what its accumulators really hold meanwhile.
struct Queue {
    std::vector<Product> products;
    std::vector<size_t> groups;
    std::unordered_map<float*, std::vector<float>> sums;
};

std::array<Queue, kMaxThreads> queues;

Queue& own_queue() { return queues[static_cast<size_t>(current->number)]; }

struct Descriptor {
    uint32_t address = 0;
    uint32_t group_bytes = 0;
    Swizzle swizzle = Swizzle::none;

    explicit Descriptor(uint64_t bits)
        : address(static_cast<uint32_t>(bits & 0x3fff) << 4),
          group_bytes(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4),
          swizzle(static_cast<Swizzle>(bits >> 62)) {}

    uint32_t row_address(int row) const {
        const auto r = static_cast<uint32_t>(row);
        return address + r / 8 * group_bytes + r % 8 * swizzle_row_bytes(swizzle);
    }
};

// Sixteen elements of a row of a tile, told to those who watch as a read of the running thread's.
void read_row(const Descriptor& tile, int row, const Product& product, Row& values) {
    for (uint32_t k = 0; k < kDepth; k += 8) {
        const uint32_t address =
            swizzled_address(tile.swizzle, tile.row_address(row) + k * kElementBytes);
        const std::byte* from = shared_at(address);
        note_access(*current, from, 16, Access::read, product.origin);
        uint16_t bits[8];
        std::memcpy(bits, from, sizeof bits);
        for (uint32_t i = 0; i < 8; ++i)
            values.at[k + i] = static_cast<double>(product.decode(bits[i]));
    }
}

// One product for the sixteen rows of the running warp.
void multiply(Meeting& meeting, const Product& product) {
    std::vector<Row> right(static_cast<size_t>(product.columns));
    Row left[kWarpRows];
    const int first_row = current->warp % 4 * kWarpRows;
    for (int row = 0; row < kWarpRows; ++row) {
        read_row(Descriptor(product.a), first_row + row, product, left[row]);
    }
    for (int column = 0; column < product.columns; ++column) {
        read_row(Descriptor(product.b), column, product, right[static_cast<size_t>(column)]);
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
        Queue& queue = *meeting.of<Queue*>(lane);
        std::vector<float>& sums = queue.sums[queue.products.front().d];
        for (int i = 0; i < product.columns / 2; ++i) {
            const int row = lane / 4 + i / 2 % 2 * 8;
            const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            double total = 0;
            for (int k = 0; k < kDepth; ++k) {
                total += left[row].at[k] * right[static_cast<size_t>(column)].at[k];
            }
            float& sum = sums[static_cast<size_t>(i)];
            sum = static_cast<float>(static_cast<double>(sum) + total);
        }
        queue.products.erase(queue.products.begin());
    }
}

void check_alike(Meeting& meeting, size_t count) {
    const Queue& first = *meeting.of<Queue*>(0);
    for (int lane = 1; lane < kWarpSize; ++lane) {
        const Queue& own = *meeting.of<Queue*>(lane);
        for (size_t i = 0; i < count; ++i) {
            if (own.products[i].a == first.products[i].a &&
                own.products[i].b == first.products[i].b)
                continue;
            Scheduler::instance().fail_at(
                own.products[i].where,
                "lane " + std::to_string(lane) + " and lane 0 give different descriptors");
        }
    }
}

// The oldest group of all lanes.
void combine_group(Meeting& meeting) {
    const size_t count = (*meeting.of<Queue*>(0)).groups.front();
    check_alike(meeting, count);
    for (size_t i = 0; i < count; ++i)
        multiply(meeting, Product((*meeting.of<Queue*>(0)).products.front()));
    for (int lane = 0; lane < kWarpSize; ++lane) {
        std::vector<size_t>& groups = (*meeting.of<Queue*>(lane)).groups;
        groups.erase(groups.begin());
        for (size_t& end : groups) end -= count;
    }
    // The lanes leave the wait together: what one of them read, all have.
    if (races::watching()) races::note_warp_barrier(current->warp, meeting.mask);
}

// Hands out the sums that no product under way goes into.
void hand_out(Queue& queue, const Site& where) {
    for (auto entry = queue.sums.begin(); entry != queue.sums.end();) {
        auto& [d, sums] = *entry;
        bool busy = false;
        for (const Product& product : queue.products) busy |= product.d == d;
        if (busy) {
            ++entry;
            continue;
        }
        for (size_t i = 0; i < sums.size(); ++i) {
            if (!std::isnan(d[i])) {
                Scheduler::instance().fail_at(
                    where, "accumulators were written while products were in flight");
            }
            d[i] = sums[i];
        }
        entry = queue.sums.erase(entry);
    }
}

void start(const Product& product) {
    Queue& queue = own_queue();
    const auto count = static_cast<size_t>(product.columns / 2);
    if (!queue.sums.contains(product.d)) {
        queue.sums[product.d] = std::vector<float>(product.d, product.d + count);
        std::fill_n(product.d, count, std::numeric_limits<float>::quiet_NaN());
    }
    queue.products.push_back(product);
}

float decode_bfloat16(uint16_t bits) { return __bfloat162float(__ushort_as_bfloat16(bits)); }
float decode_half(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }

void check_tile(uint64_t bits, const Site& where) {
    const Descriptor tile(bits);
    if (tile.swizzle != Swizzle::none && tile.group_bytes != 0) return;
    Scheduler::instance().fail_at(where,
                                  "a matrix descriptor without swizzle, which is not emulated");
}

}  // namespace

void reset_warpgroup_products() {
    for (Queue& queue : queues) {
        queue.products.clear();
        queue.groups.clear();
        queue.sums.clear();
    }
}

void check_products_at_end() {
    const Queue& queue = own_queue();
    if (queue.products.empty()) return;
    Scheduler::instance().fail_at(
        queue.products.front().where,
        "the thread ends without having waited for its product from here");
}

void wait_for_products(int groups_left, const Site& where) {
    Queue* queue = &own_queue();
    while (queue->groups.size() > static_cast<size_t>(groups_left)) {
        meet(kFullMask, "warpgroup_wait", &queue, combine_group, where);
    }
    hand_out(*queue, where);
}

}  // namespace emulation

uint32_t shared_address(const void* address, emulation::Site where) {
    return emulation::shared_offset(address, where);
}

void warpgroup_fence(emulation::Site) {}

template <typename T, int columns>
void warpgroup_multiply(float (&d)[columns / 2], uint64_t a, uint64_t b, emulation::Site where) {
    emulation::check_tile(a, where);
    emulation::check_tile(b, where);
    emulation::start(
        {.d = d,
         .columns = columns,
         .a = a,
         .b = b,
         .decode = std::is_same_v<T, __half> ? emulation::decode_half : emulation::decode_bfloat16,
         .origin = NVLLM_CALLER,
         .where = where});
}
template void warpgroup_multiply<__nv_bfloat16, 64>(float (&)[32], uint64_t, uint64_t,
                                                    emulation::Site);
template void warpgroup_multiply<__nv_bfloat16, 128>(float (&)[64], uint64_t, uint64_t,
                                                     emulation::Site);
template void warpgroup_multiply<__half, 64>(float (&)[32], uint64_t, uint64_t, emulation::Site);
template void warpgroup_multiply<__half, 128>(float (&)[64], uint64_t, uint64_t, emulation::Site);

void warpgroup_commit() {
    emulation::Queue& queue = emulation::own_queue();
    queue.groups.push_back(queue.products.size());
}

}  // namespace nvllm::gpu
