// For every eight bytes of memory that kernels touch, the accesses to remember.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "kernels/cuda_emulation/accesses.h"

namespace nvllm::gpu::emulation {

constexpr size_t kCellBytes = 8;

struct Record {
    uint64_t span = 0;  // 0: none
    Origin origin = nullptr;
    uint32_t clock = 0;
    uint16_t thread = 0;
    uint8_t bytes = 0;  // bit i: byte i of the cell
    Access access = Access::read;
};

// As many records as threads can write to eight bytes without touching each other's.
struct Cell {
    std::array<Record, 8> records;
    uint32_t next = 0;  // which to forget when all are needed
};

class Shadow {
  public:
    // The cell of the bytes [8 number, 8 number + 8).
    Cell& at(uintptr_t number) {
        const uintptr_t page = number / kPageCells;
        if (page != last_page_) find(page);
        return (*last_)[number % kPageCells];
    }
    // Gives memory back when there is much of it. Cells are forgotten then.
    void shrink() {
        if (pages_.size() < kManyPages) return;
        pages_.clear();
        last_page_ = kNoPage;
    }

  private:
    static constexpr size_t kPageCells = 128;
    static constexpr size_t kManyPages = 4096;  // 4 MiB of memory watched
    static constexpr uintptr_t kNoPage = UINTPTR_MAX;
    using Page = std::array<Cell, kPageCells>;

    void find(uintptr_t page) {
        auto& held = pages_[page];
        if (!held) held = std::make_unique<Page>();
        last_ = held.get();
        last_page_ = page;
    }

    std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
    uintptr_t last_page_ = kNoPage;
    Page* last_ = nullptr;
};

}  // namespace nvllm::gpu::emulation
