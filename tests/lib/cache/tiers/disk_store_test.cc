// Folders that processes share, that end in the middle, and that are damaged.
#include "lib/cache/tiers/disk_store.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "tests/lib/quantize/folder.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBlockBytes = 8192;

DiskStoreConfig config_of(const test::Folder& folder, uint64_t limit = uint64_t{1} << 30) {
    return {folder.path() / "cache", "a model", limit};
}

// The content number `n`, a block behind content n - 1.
DiskRecord record_of(const DiskStore& store, uint64_t n, const DiskPlace& place) {
    DiskRecord record{.group = static_cast<int32_t>(n % 2),
                      .offset = place.offset,
                      .key = {n, store.hash_key().low},
                      .parent = {n - 1, store.hash_key().low},
                      .tokens = {static_cast<int32_t>(n), 2, 3, 4},
                      .extra = n % 3 == 0 ? "salt" : ""};
    return record;
}

DiskPlace keep(DiskStore& store, uint64_t n) {
    const auto place = store.reserve(kBlockBytes);
    REQUIRE(place.has_value());
    store.commit(place->segment, record_of(store, n, *place));
    return *place;
}

std::optional<DiskPlace> found(const DiskStore& store, uint64_t n) {
    const DiskRecord record = record_of(store, n, {});
    return store.find(record.group, record.key, record.parent, record.tokens, record.extra);
}

int64_t num_found(const DiskStore& store, uint64_t count) {
    int64_t num = 0;
    for (uint64_t n = 1; n <= count; ++n) num += found(store, n) ? 1 : 0;
    return num;
}

std::vector<fs::path> logs_in(const fs::path& folder) {
    std::vector<fs::path> logs;
    for (const auto& file : fs::directory_iterator(folder)) {
        if (file.path().extension() == ".log") logs.push_back(file.path());
    }
    return logs;
}

TEST_CASE("what was kept is found by this process, by others, and by later ones") {
    const test::Folder folder;
    DiskStore store(config_of(folder));
    DiskStore other(config_of(folder));
    CHECK(store.hash_key().low == other.hash_key().low);
    const DiskPlace first = keep(store, 1);
    CHECK(found(store, 1) == first);
    CHECK_FALSE(found(other, 1));
    other.refresh();
    CHECK(found(other, 1) == first);
    const DiskPlace second = keep(other, 2);
    CHECK(second.segment != first.segment);
    store.refresh();
    CHECK(found(store, 2) == second);
    const DiskStore later(config_of(folder));
    CHECK(num_found(later, 3) == 2);
    CHECK(later.num_contents() == 2);
    DiskStoreConfig another = config_of(folder);
    another.identity = "another model";
    const DiskStore stranger(another);
    CHECK(stranger.num_contents() == 0);
    CHECK(stranger.hash_key().low != store.hash_key().low);
}

TEST_CASE("a content with the key of another one is not taken for it") {
    const test::Folder folder;
    DiskStore store(config_of(folder));
    keep(store, 3);
    DiskRecord record = record_of(store, 3, {});
    CHECK(store.knows(record.group, record.key));
    CHECK_FALSE(store.knows(1 - record.group, record.key));
    record.tokens[2] = 9;
    CHECK_FALSE(store.find(record.group, record.key, record.parent, record.tokens, record.extra));
    record = record_of(store, 3, {});
    CHECK_FALSE(store.find(record.group, record.key, record.key, record.tokens, record.extra));
    CHECK_FALSE(store.find(record.group, record.key, record.parent, record.tokens, ""));
    store.forget(record.group, record.key);
    CHECK_FALSE(found(store, 3));
    CHECK(store.num_contents() == 0);
}

TEST_CASE("a log that ends anywhere gives the records before") {
    const test::Folder folder;
    fs::path log;
    std::vector<size_t> ends;
    {
        DiskStore store(config_of(folder));
        for (uint64_t n = 1; n <= 20; ++n) {
            keep(store, n);
            log = logs_in(store.folder()).front();
            ends.push_back(fs::file_size(log));
        }
    }
    const std::string whole = read_file(log);
    for (size_t size = 0; size <= whole.size(); ++size) {
        write_file(log, std::string_view(whole).substr(0, size));
        const DiskStore store(config_of(folder));
        const auto expected = std::ranges::upper_bound(ends, size) - ends.begin();
        CHECK(num_found(store, 20) == expected);
        CHECK(store.num_contents() == expected);
    }
}

TEST_CASE("a log with any byte changed gives records that are true") {
    const test::Folder folder;
    fs::path log;
    std::vector<DiskPlace> places(1);
    {
        DiskStore store(config_of(folder));
        for (uint64_t n = 1; n <= 8; ++n) places.push_back(keep(store, n));
        log = logs_in(store.folder()).front();
    }
    const std::string whole = read_file(log);
    for (size_t at = 0; at < whole.size(); ++at) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 0x10);
        write_file(log, changed);
        const DiskStore store(config_of(folder));
        int64_t wrong = store.num_contents() >= 8;
        for (uint64_t n = 1; n <= 8; ++n) {
            const auto place = found(store, n);
            wrong += place && *place != places[n];
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("another process's log is read as it grows, also from the middle of a record on") {
    const test::Folder folder;
    fs::path log;
    {
        DiskStore store(config_of(folder));
        for (uint64_t n = 1; n <= 5; ++n) keep(store, n);
        log = logs_in(store.folder()).front();
    }
    const std::string whole = read_file(log);
    write_file(log, whole.substr(0, whole.size() - 10));
    DiskStore store(config_of(folder));
    CHECK(num_found(store, 5) == 4);
    store.refresh();
    CHECK(num_found(store, 5) == 4);
    write_file(log, whole);
    store.refresh();
    CHECK(num_found(store, 5) == 5);
}

TEST_CASE("room is made of the segments used least recently, whoever wrote them") {
    const test::Folder folder;
    constexpr uint64_t kLimit = uint64_t{16} << 20;  // four segments
    DiskStore store(config_of(folder, kLimit));
    DiskStore other(config_of(folder, kLimit));
    const DiskPlace kept = keep(other, 1);
    uint64_t n = 1;
    const auto fill = [&](uint64_t blocks) {
        for (uint64_t i = 0; i < blocks; ++i) {
            const DiskPlace place = keep(store, ++n);
            // As a worker does: a file's size is what it says.
            fs::resize_file(store.folder() / fmt::format("{:016x}.kv", place.segment),
                            place.offset + kBlockBytes);
        }
    };
    fs::resize_file(store.folder() / fmt::format("{:016x}.kv", kept.segment), kBlockBytes);
    const uint64_t blocks_of_segment = (uint64_t{4} << 20) / kBlockBytes;
    for (int round = 0; round < 12; ++round) {
        fill(blocks_of_segment);
        other.touch(kept.segment);
        CHECK(store.bytes() <= kLimit);
    }
    CHECK(found(store, 1) == kept);
    CHECK(found(store, n));
    CHECK_FALSE(found(store, 2));
    other.refresh();
    CHECK(found(other, n));
    CHECK_FALSE(found(other, 2));
    CHECK(other.num_segments() <= 6);
}

TEST_CASE("a key that is damaged is made anew, and what it was of is left out") {
    const test::Folder folder;
    fs::path key;
    {
        DiskStore store(config_of(folder));
        keep(store, 1);
        key = store.folder() / "key";
    }
    write_file(key, "nonsense");
    configure_log({.level = LogLevel::off});
    DiskStore store(config_of(folder));
    configure_log({});
    CHECK(store.num_contents() == 0);
    keep(store, 2);
    CHECK(DiskStore(config_of(folder)).num_contents() == 1);
}

TEST_CASE("a block may be larger than a segment, and none larger than all") {
    const test::Folder folder;
    DiskStore store(config_of(folder, uint64_t{16} << 20));
    CHECK(store.reserve(uint64_t{6} << 20));
    CHECK_FALSE(store.reserve(uint64_t{17} << 20));
}

TEST_CASE("files of others and folders in the way are left alone") {
    const test::Folder folder;
    fs::path inside;
    {
        DiskStore store(config_of(folder));
        keep(store, 1);
        inside = store.folder();
    }
    write_file(inside / "notes.log", "mine");
    write_file(inside / "00000000000000zz.log", "mine");
    fs::create_directory(inside / "0000000000000001.log");
    write_file(inside / "0000000000000002.log", "no segment beside it");
    DiskStore store(config_of(folder));
    CHECK(store.num_contents() == 1);
    CHECK(read_file(inside / "notes.log") == "mine");
}

}  // namespace
}  // namespace nvllm
