// Tensor-core instructions: whole matrices gathered from the lanes' registers, exact products
// summed in double, rounded once.
//
// Tensor cores cut off bits while they align the summands, so results on a device differ in the
// last bits.
#include "kernels/cuda_emulation/matrix.h"

#include <cstring>
#include <string>

#include "kernels/cuda_emulation/accesses.h"
#include "kernels/cuda_emulation/collective.h"
#include "kernels/cuda_emulation/scheduler.h"
#include "kernels/cuda_emulation/shared_memory.h"

namespace nvllm::gpu {

namespace {

using emulation::kFullMask;
using emulation::kWarpSize;
using emulation::Meeting;
using emulation::Scheduler;
using emulation::Site;

constexpr int kRows = 16;
constexpr int kColumns = 8;

// Element `index` of a register of T.
double element(__nv_bfloat16, uint32_t bits, int index) {
    return __bfloat162float(
        __ushort_as_bfloat16(static_cast<unsigned short>(bits >> (16 * index))));
}
double element(__half, uint32_t bits, int index) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits >> (16 * index))));
}
double element(__nv_fp8_e4m3, uint32_t bits, int index) {
    __nv_fp8_e4m3 value;
    value.__x = static_cast<unsigned char>(bits >> (8 * index));
    return static_cast<float>(value);
}
double element(int8_t, uint32_t bits, int index) {
    return static_cast<int8_t>(bits >> (8 * index));
}

template <typename Sum>
struct ProductLane {
    Sum* d = nullptr;
    const uint32_t* a = nullptr;
    const uint32_t* b = nullptr;
    uint32_t places = 0;  // of what a sparse left factor keeps
};

// Each lane's part of a product is added to its d.
template <typename Sum, typename Product>
void add_sums(Meeting& meeting, const Product& product) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
        Sum* d = meeting.of<ProductLane<Sum>>(lane).d;
        for (int r = 0; r < 4; ++r) {
            const double total = product.sum(lane / 4 + r / 2 * 8, lane % 4 * 2 + r % 2);
            d[r] = static_cast<Sum>(static_cast<double>(d[r]) + total);
        }
    }
}

template <typename T, int depth, typename Sum>
struct Product {
    static constexpr int kPerRegister = depth / 8;  // elements
    double a[kRows][depth];
    double b[depth][kColumns];

    void gather(Meeting& meeting) {
        for (int lane = 0; lane < kWarpSize; ++lane) {
            const int g = lane / 4;
            const int t = lane % 4;
            const auto& own = meeting.of<ProductLane<Sum>>(lane);
            for (int i = 0; i < kPerRegister; ++i) {
                const int k = kPerRegister * t + i;
                for (int r = 0; r < 4; ++r) {
                    a[g + r % 2 * 8][k + r / 2 * (depth / 2)] = element(T{}, own.a[r], i);
                }
                for (int r = 0; r < 2; ++r) b[k + r * (depth / 2)][g] = element(T{}, own.b[r], i);
            }
        }
    }

    double sum(int row, int column) const {
        double total = 0;
        for (int k = 0; k < depth; ++k) total += a[row][k] * b[k][column];
        return total;
    }

    static void combine(Meeting& meeting) {
        Product product;
        product.gather(meeting);
        add_sums<Sum>(meeting, product);
    }

    static void run(Sum* d, const uint32_t* a, const uint32_t* b, const char* name,
                    const Site& where) {
        ProductLane<Sum> own{d, a, b};
        emulation::meet(kFullMask, name, &own, combine, where);
    }
};

template <typename T, int pair>
struct SparseProduct {
    static constexpr int kFours = 8;  // of a row
    double kept[kRows][kFours][2];
    int places[kRows][kFours][2];
    double b[4 * kFours][kColumns];

    void gather(Meeting& meeting) {
        for (int lane = 0; lane < kWarpSize; ++lane) {
            const int g = lane / 4;
            const int t = lane % 4;
            const auto& own = meeting.of<ProductLane<float>>(lane);
            for (int r = 0; r < 4; ++r) {
                for (int i = 0; i < 2; ++i) {
                    kept[g + r % 2 * 8][t + r / 2 * 4][i] = element(T{}, own.a[r], i);
                    b[2 * t + i + 8 * r][g] = element(T{}, own.b[r], i);
                }
            }
        }
    }

    void gather_places(Meeting& meeting) {
        for (int row = 0; row < kRows; ++row) {
            for (int four = 0; four < kFours; ++four) {
                const int lane = row % 8 * 4 + 2 * pair + four / 4;
                const uint32_t bits = meeting.of<ProductLane<float>>(lane).places >>
                                      (16 * (row / 8) + 4 * (four % 4));
                places[row][four][0] = static_cast<int>(bits & 3u);
                places[row][four][1] = static_cast<int>(bits >> 2 & 3u);
                if (places[row][four][0] >= places[row][four][1]) {
                    Scheduler::instance().fail_at(
                        meeting.where,
                        "lane " + std::to_string(lane) +
                            " gives places out of order: " + std::to_string(places[row][four][0]) +
                            ", then " + std::to_string(places[row][four][1]) + " of row " +
                            std::to_string(row) + ", columns from " + std::to_string(4 * four) +
                            " on");
                }
            }
        }
    }

    double sum(int row, int column) const {
        double total = 0;
        for (int four = 0; four < kFours; ++four) {
            for (int i = 0; i < 2; ++i) {
                total += kept[row][four][i] * b[4 * four + places[row][four][i]][column];
            }
        }
        return total;
    }

    static void combine(Meeting& meeting) {
        SparseProduct product;
        product.gather(meeting);
        product.gather_places(meeting);
        add_sums<float>(meeting, product);
    }
};

struct RowsLane {
    const void* row = nullptr;
    uint32_t* registers = nullptr;
    emulation::Origin origin = nullptr;
};

// The 8x8 matrix whose rows the lanes 8i..8i+7 name.
struct Matrix {
    uint16_t at[8][8];
};

// Lane `lane`'s row of a matrix: checked, and told to those who watch.
void visit_row(const Meeting& meeting, int lane, emulation::Access access) {
    const RowsLane& own = meeting.of<RowsLane>(lane);
    const void* row = own.row;
    const Site& where = meeting.where;
    Scheduler& scheduler = Scheduler::instance();
    const uint32_t offset = emulation::shared_offset(row, where);
    if (offset % 16 != 0) {
        scheduler.fail_at(where, "lane " + std::to_string(lane) + " gives a matrix row that is " +
                                     std::to_string(offset % 16) + " bytes past a multiple of 16");
    }
    emulation::note_access(scheduler.thread_of(emulation::current->warp, lane), row, 16, access,
                           own.origin);
}

template <int count, bool transposed>
void combine_load(Meeting& meeting) {
    for (int i = 0; i < count; ++i) {
        Matrix matrix;
        for (int row = 0; row < 8; ++row) {
            const void* address = meeting.of<RowsLane>(8 * i + row).row;
            visit_row(meeting, 8 * i + row, emulation::Access::read);
            std::memcpy(matrix.at[row], address, 16);
        }
        for (int lane = 0; lane < kWarpSize; ++lane) {
            const int across = lane % 4 * 2;
            const int down = lane / 4;
            const uint32_t low = transposed ? matrix.at[across][down] : matrix.at[down][across];
            const uint32_t high =
                transposed ? matrix.at[across + 1][down] : matrix.at[down][across + 1];
            meeting.of<RowsLane>(lane).registers[i] = high << 16 | low;
        }
    }
}

template <int count, bool transposed>
void load_matrices(uint32_t* registers, const void* row, const char* name, const Site& where,
                   emulation::Origin origin) {
    RowsLane own{row, registers, origin};
    emulation::meet(kFullMask, name, &own, combine_load<count, transposed>, where);
}

void combine_store(Meeting& meeting) {
    for (int i = 0; i < 4; ++i) {
        for (int row = 0; row < 8; ++row) {
            void* address = const_cast<void*>(meeting.of<RowsLane>(8 * i + row).row);
            visit_row(meeting, 8 * i + row, emulation::Access::write);
            for (int t = 0; t < 4; ++t) {
                std::memcpy(static_cast<std::byte*>(address) + 4 * t,
                            &meeting.of<RowsLane>(4 * row + t).registers[i], 4);
            }
        }
    }
}

}  // namespace

template <typename T>
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site where) {
    Product<T, 16, float>::run(d, a, b, "mma_m16n8k16", where);
}
template void mma_m16n8k16<__nv_bfloat16>(float (&)[4], const uint32_t (&)[4],
                                          const uint32_t (&)[2], Site);
template void mma_m16n8k16<__half>(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2],
                                   Site);

template <typename T>
void mma_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site where) {
    Product<T, 32, float>::run(d, a, b, "mma_m16n8k32", where);
}
template void mma_m16n8k32<__nv_fp8_e4m3>(float (&)[4], const uint32_t (&)[4],
                                          const uint32_t (&)[2], Site);

template <typename T>
void mma_m16n8k32(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site where) {
    Product<T, 32, int>::run(d, a, b, "mma_m16n8k32", where);
}
template void mma_m16n8k32<int8_t>(int (&)[4], const uint32_t (&)[4], const uint32_t (&)[2], Site);

template <typename T, int pair>
void mma_sparse_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                         uint32_t places, Site where) {
    ProductLane<float> own{d, a, b, places};
    emulation::meet(kFullMask, "mma_sparse_m16n8k32", &own, SparseProduct<T, pair>::combine, where);
}
template void mma_sparse_m16n8k32<__nv_bfloat16, 0>(float (&)[4], const uint32_t (&)[4],
                                                    const uint32_t (&)[4], uint32_t, Site);
template void mma_sparse_m16n8k32<__nv_bfloat16, 1>(float (&)[4], const uint32_t (&)[4],
                                                    const uint32_t (&)[4], uint32_t, Site);
template void mma_sparse_m16n8k32<__half, 0>(float (&)[4], const uint32_t (&)[4],
                                             const uint32_t (&)[4], uint32_t, Site);
template void mma_sparse_m16n8k32<__half, 1>(float (&)[4], const uint32_t (&)[4],
                                             const uint32_t (&)[4], uint32_t, Site);

void ldmatrix_x4(uint32_t (&r)[4], const void* row, Site where) {
    load_matrices<4, false>(r, row, "ldmatrix_x4", where, NVLLM_CALLER);
}
void ldmatrix_x4_transposed(uint32_t (&r)[4], const void* row, Site where) {
    load_matrices<4, true>(r, row, "ldmatrix_x4_transposed", where, NVLLM_CALLER);
}
void ldmatrix_x2(uint32_t (&r)[2], const void* row, Site where) {
    load_matrices<2, false>(r, row, "ldmatrix_x2", where, NVLLM_CALLER);
}
void ldmatrix_x2_transposed(uint32_t (&r)[2], const void* row, Site where) {
    load_matrices<2, true>(r, row, "ldmatrix_x2_transposed", where, NVLLM_CALLER);
}

void stmatrix_x4(void* row, const uint32_t (&r)[4], Site where) {
    RowsLane own{row, const_cast<uint32_t*>(r), NVLLM_CALLER};
    emulation::meet(kFullMask, "stmatrix_x4", &own, combine_store, where);
}

}  // namespace nvllm::gpu
