// Bytes of headers and records.
#include "lib/cache/tiers/disk_log.h"

#include <cstring>

#include "lib/base/digest.h"

namespace nvllm {
namespace {

constexpr uint64_t kLogMark = 0x316b6c62766e766e;  // nvnvblk1
constexpr uint32_t kRecordMark = 0x6b6c62;
// More than any block has: what claims more is no record.
constexpr uint32_t kMostTokens = 1 << 16;
constexpr uint32_t kMostExtra = 1 << 20;

struct LogHeader {
    uint64_t mark = kLogMark;
    uint64_t identity = 0;
    uint64_t digest = 0;  // of what stands before
};
static_assert(sizeof(LogHeader) == kLogHeaderBytes);

struct RecordHeader {
    uint32_t mark = kRecordMark;
    uint32_t num_tokens = 0;
    uint32_t extra_bytes = 0;
    int32_t group = 0;
    uint64_t offset = 0;
    BlockKey key;
    BlockKey parent;
    uint64_t digest = 0;  // of what stands before, then of tokens and extra bytes
};
static_assert(sizeof(RecordHeader) == 64);

template <typename Value>
std::string_view bytes_of(const Value& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

uint64_t digest_of(const RecordHeader& header, std::string_view rest) {
    const uint64_t begin = digest(&header, offsetof(RecordHeader, digest));
    return digest(rest.data(), rest.size(), begin);
}

}  // namespace

std::string log_header(uint64_t identity) {
    LogHeader header{.identity = identity};
    header.digest = digest(&header, offsetof(LogHeader, digest));
    return std::string(bytes_of(header));
}

bool is_log_header(std::string_view bytes, uint64_t identity) {
    return bytes == log_header(identity);
}

void append_record(const DiskRecord& record, std::string& log) {
    std::string rest(reinterpret_cast<const char*>(record.tokens.data()),
                     record.tokens.size() * sizeof(int32_t));
    rest += record.extra;
    RecordHeader header{.num_tokens = static_cast<uint32_t>(record.tokens.size()),
                        .extra_bytes = static_cast<uint32_t>(record.extra.size()),
                        .group = record.group,
                        .offset = record.offset,
                        .key = record.key,
                        .parent = record.parent};
    header.digest = digest_of(header, rest);
    log += bytes_of(header);
    log += rest;
}

std::optional<ReadRecord> read_record(std::string_view log) {
    RecordHeader header;
    if (log.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, log.data(), sizeof(header));
    if (header.mark != kRecordMark || header.num_tokens > kMostTokens ||
        header.extra_bytes > kMostExtra) {
        return std::nullopt;
    }
    const size_t token_bytes = header.num_tokens * sizeof(int32_t);
    const size_t bytes = sizeof(header) + token_bytes + header.extra_bytes;
    if (log.size() < bytes) return std::nullopt;
    const std::string_view rest = log.substr(sizeof(header), bytes - sizeof(header));
    if (header.digest != digest_of(header, rest)) return std::nullopt;
    ReadRecord read{.record = {.group = header.group,
                               .offset = header.offset,
                               .key = header.key,
                               .parent = header.parent,
                               .tokens = std::vector<int32_t>(header.num_tokens),
                               .extra = std::string(rest.substr(token_bytes))},
                    .bytes = bytes};
    std::memcpy(read.record.tokens.data(), rest.data(), token_bytes);
    return read;
}

}  // namespace nvllm
