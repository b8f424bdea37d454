// A file of whole rows of logprobs: what a base model said about a text, to compare others with.
//
// "NVLLMKL1", then little-endian: u32 vocab, u32 context, u64 windows; for each window u32 number
// of tokens, u32 first scored token, its ids as i32, and for each scored token a row of f32
// [vocab].
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "lib/base/file.h"
#include "lib/evaluate/perplexity.h"

namespace nvllm {

struct LogprobFileHead {
    uint32_t vocab = 0;
    uint32_t context = 0;
    uint64_t num_windows = 0;
};

// Windows one after the other, each followed by its rows.
class LogprobWriter {
  public:
    // Throws cannot_create.
    LogprobWriter(const std::filesystem::path& file, const LogprobFileHead& head);
    void add_window(const Window& window);
    void add_row(std::span<const float> logprobs);
    // Throws io when anything could not be written.
    void finish();

  private:
    std::filesystem::path path_;
    std::ofstream stream_;
};

// The same, mapped. Every size is compared with the file's before it is used.
class LogprobReader {
  public:
    // Throws not_found, io, and bad_data for what is no such file or is cut off.
    explicit LogprobReader(const std::filesystem::path& file);

    const LogprobFileHead& head() const { return head_; }
    // The next window; its rows follow. REQUIRES: fewer than num_windows were taken.
    Window next_window();
    // [vocab], valid as long as the reader.
    std::vector<float> next_row();

  private:
    template <typename T>
    T take();
    void need(uint64_t bytes) const;

    MappedFile file_;
    LogprobFileHead head_;
    size_t at_ = 0;
};

}  // namespace nvllm
