// Reading with every size checked, and writing.
#include "lib/measure/logprob_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "kernels/error.h"

namespace nvllm {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is written as memory lies");

constexpr std::string_view kMagic = "NVLLMKL1";
constexpr uint32_t kMaxVocab = 1 << 24;
constexpr uint32_t kMaxTokens = 1 << 24;

template <typename T>
void put(std::ofstream& stream, const T& value) {
    stream.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

LogprobWriter::LogprobWriter(const std::filesystem::path& file, const LogprobFileHead& head)
    : path_(file), stream_(file, std::ios::binary | std::ios::trunc) {
    if (!stream_) throw Error(ErrorKind::cannot_create, file.string() + ": cannot be written");
    stream_ << kMagic;
    put(stream_, head.vocab);
    put(stream_, head.context);
    put(stream_, head.num_windows);
}

void LogprobWriter::add_window(const Window& window) {
    put(stream_, static_cast<uint32_t>(window.token_ids.size()));
    put(stream_, static_cast<uint32_t>(window.first_scored));
    for (const int32_t id : window.token_ids) put(stream_, id);
}

void LogprobWriter::add_row(std::span<const float> logprobs) {
    stream_.write(reinterpret_cast<const char*>(logprobs.data()),
                  static_cast<std::streamsize>(logprobs.size_bytes()));
}

void LogprobWriter::finish() {
    stream_.flush();
    if (!stream_) throw Error(ErrorKind::io, path_.string() + ": writing failed");
}

LogprobReader::LogprobReader(const std::filesystem::path& file) : file_(file) {
    need(kMagic.size());
    if (std::memcmp(file_.bytes().data(), kMagic.data(), kMagic.size()) != 0) {
        throw Error(ErrorKind::bad_data,
                    file.string() + ": not a file that --save-all-logits wrote");
    }
    at_ = kMagic.size();
    head_.vocab = take<uint32_t>();
    head_.context = take<uint32_t>();
    head_.num_windows = take<uint64_t>();
    if (head_.vocab == 0 || head_.vocab > kMaxVocab || head_.num_windows > file_.size()) {
        throw Error(ErrorKind::bad_data, file.string() + ": its head announces absurd sizes");
    }
}

void LogprobReader::need(uint64_t bytes) const {
    if (bytes <= file_.size() - at_) return;
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: ends after {} bytes, in the middle of its rows; write it again",
                            file_.path().string(), file_.size()));
}

template <typename T>
T LogprobReader::take() {
    need(sizeof(T));
    T value{};
    std::memcpy(&value, file_.bytes().data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
}

Window LogprobReader::next_window() {
    const auto count = take<uint32_t>(), first = take<uint32_t>();
    if (count < 2 || count > kMaxTokens || first < 1 || first >= count) {
        throw Error(ErrorKind::bad_data,
                    file_.path().string() + ": a window announces absurd sizes");
    }
    need(uint64_t{count} * sizeof(int32_t));
    Window window;
    window.first_scored = first;
    for (uint32_t i = 0; i < count; ++i) {
        const auto id = take<int32_t>();
        if (id < 0 || static_cast<uint32_t>(id) >= head_.vocab) {
            throw Error(ErrorKind::bad_data,
                        file_.path().string() + ": a token outside of its vocabulary");
        }
        window.token_ids.push_back(id);
    }
    return window;
}

std::vector<float> LogprobReader::next_row() {
    const size_t bytes = size_t{head_.vocab} * sizeof(float);
    need(bytes);
    std::vector<float> row(head_.vocab);
    std::memcpy(row.data(), file_.bytes().data() + at_, bytes);
    at_ += bytes;
    return row;
}

}  // namespace nvllm
