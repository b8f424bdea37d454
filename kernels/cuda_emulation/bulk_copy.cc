// Tile copies, done as late as they may be, in random order; Settings::copies asks for the other
// extreme.
#include "kernels/cuda_emulation/bulk_copy.h"

#include <cstring>
#include <vector>

#include "kernels/cuda_emulation/memory.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"
#include "kernels/cuda_emulation/shared_memory.h"

namespace nvllm::gpu {

namespace emulation {

namespace {

constexpr size_t kElementBytes = 2;
constexpr int kPoison = 0xff;

struct TileCopy {
    std::byte* to = nullptr;
    TiledMatrix matrix;
    int row = 0;
    int column = 0;
    const void* barrier = nullptr;
    int thread = 0;  // that has started it, at its time `clock`
    uint32_t clock = 0;
    Origin origin = nullptr;
    Site where;

    uint32_t bytes() const {
        return matrix.box_rows * matrix.box_columns * static_cast<uint32_t>(kElementBytes);
    }
};

std::vector<TileCopy> under_way;

uint16_t element_at(const TiledMatrix& matrix, int64_t row, int64_t column) {
    if (row < 0 || row >= matrix.rows || column < 0 || column >= matrix.columns) return 0;
    uint16_t element = 0;
    std::memcpy(&element,
                static_cast<const std::byte*>(matrix.data) +
                    static_cast<uint64_t>(row) * matrix.row_bytes +
                    static_cast<uint64_t>(column) * kElementBytes,
                kElementBytes);
    return element;
}

void move_bytes(const TileCopy& copy) {
    const TiledMatrix& matrix = copy.matrix;
    const uint32_t begin = shared_offset(copy.to, copy.where);
    std::byte* const arena = copy.to - begin;
    uint32_t address = begin;
    for (uint32_t r = 0; r < matrix.box_rows; ++r) {
        for (uint32_t c = 0; c < matrix.box_columns; ++c, address += kElementBytes) {
            const uint16_t element =
                element_at(matrix, int64_t{copy.row} + r, int64_t{copy.column} + c);
            std::memcpy(arena + swizzled_address(matrix.swizzle, address), &element, kElementBytes);
        }
    }
}

void finish(const TileCopy& copy) {
    move_bytes(copy);
    if (races::watching()) {
        races::end_bulk_copy(copy.to, copy.bytes(), copy.thread, copy.clock, copy.origin);
    }
    complete_bytes(copy.barrier, copy.bytes(), copy.thread, copy.clock);
}

}  // namespace

void reset_bulk_copies() { under_way.clear(); }

bool perform_bulk_copy() {
    if (under_way.empty()) return false;
    const size_t chosen = Scheduler::instance().random()() % under_way.size();
    const TileCopy copy = under_way[chosen];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(chosen));
    finish(copy);
    return true;
}

void check_bulk_copies() {
    if (under_way.empty()) return;
    throw Fault(under_way.front().where.describe() +
                ": the block has ended, and the copy of a tile from here is still in flight");
}

}  // namespace emulation

TensorMap make_tensor_map(const TiledMatrix& matrix) {
    NVLLM_CHECK(reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 && matrix.row_bytes % 16 == 0,
                "a tensor map needs addresses and rows at multiples of 16 bytes");
    NVLLM_CHECK(matrix.box_rows > 0 && matrix.box_rows <= 256 && matrix.box_columns > 0 &&
                    matrix.box_columns <= 256 && matrix.box_columns * 2 % 16 == 0,
                "a tensor map's box has 1 to 256 rows, and columns of a multiple of 16 bytes");
    NVLLM_CHECK(matrix.swizzle == Swizzle::none ||
                    matrix.box_columns * 2 == swizzle_row_bytes(matrix.swizzle),
                "the rows of a tensor map's box are not those of its swizzle");
    return {matrix};
}

void start_tile_copy(void* shared, const TensorMap& map, int row, int column,
                     TransactionBarrier* barrier, emulation::Site where) {
    using namespace emulation;
    check_barrier(barrier, where);
    if (shared_offset(shared, where) % 128 != 0) {
        Scheduler::instance().fail_at(where,
                                      "a tile is copied to an address that is no multiple of 128");
    }
    TileCopy copy{.to = static_cast<std::byte*>(shared),
                  .matrix = map.matrix,
                  .row = row,
                  .column = column,
                  .barrier = barrier,
                  .thread = current->number,
                  .origin = NVLLM_CALLER,
                  .where = where};
    if (shared_array_at(shared, copy.bytes()) == nullptr) {
        Scheduler::instance().fail_at(where, "a tile is copied past the end of shared memory");
    }
    if (races::watching()) {
        copy.clock = races::start_bulk_copy(*current, shared, copy.bytes(), copy.origin);
    }
    if (Scheduler::instance().settings().copies == CopyTiming::early) {
        finish(copy);
        return;
    }
    std::memset(shared, kPoison, copy.bytes());
    under_way.push_back(copy);
}

}  // namespace nvllm::gpu
