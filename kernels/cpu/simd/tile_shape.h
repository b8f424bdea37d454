// Tiles: eight registers of up to 16 rows of up to 64 bytes.
#pragma once

#include <cstdint>

namespace nvllm::cpu {

constexpr int kNumTiles = 8;
constexpr int64_t kTileRows = 16;
constexpr int64_t kTileRowBytes = 64;

// Both 0: the register is not used.
struct TileShape {
    uint8_t rows;
    uint8_t row_bytes;

    bool operator==(const TileShape&) const = default;
};

struct TileShapes {
    TileShape of[kNumTiles];

    bool operator==(const TileShapes&) const = default;
};

// Words of two bfloat16; of four bytes, signed but for those of the left operand where it says so.
enum class TileProduct : uint8_t { bfloat16, unsigned_by_signed, signed_by_signed };

}  // namespace nvllm::cpu
