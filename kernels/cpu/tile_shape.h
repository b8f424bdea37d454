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
};

struct TileShapes {
    TileShape of[kNumTiles];
};

}  // namespace nvllm::cpu
