// Blocks through files: between ranks of any number, damaged, and beside each other.
#include "lib/execute/tiers/block_files.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "lib/base/file.h"
#include "tests/lib/quantize/folder.h"

namespace nvllm {
namespace {

constexpr int32_t kBlockSize = 4;
constexpr uint64_t kSegment = 0x12;

CacheLayout layers_of(int32_t num_layers, int32_t kv_heads) {
    CacheLayout group;
    for (int32_t layer = 0; layer < num_layers; ++layer) group.layers.push_back(layer);
    group.kv_heads = kv_heads;
    group.head_dim = 8;
    return group;
}

// The host blocks of one rank.
struct Blocks {
    Blocks(const CacheLayout& group, DType dtype, int32_t count) {
        bytes = static_cast<size_t>(group.is_state() ? group.bytes_per_state()
                                                     : group.bytes_per_token(dtype) * kBlockSize);
        memory.resize(bytes * static_cast<size_t>(count));
    }
    std::byte* at(int32_t block) { return memory.data() + bytes * static_cast<size_t>(block); }
    void fill(int32_t block, unsigned seed) {
        std::mt19937 random(seed);
        for (size_t i = 0; i < bytes; ++i) at(block)[i] = static_cast<std::byte>(random());
    }
    bool equal(int32_t a, int32_t b) { return std::memcmp(at(a), at(b), bytes) == 0; }

    size_t bytes = 0;
    std::vector<std::byte> memory;
};

std::vector<DiskEvent> await(BlockFiles& files, size_t count) {
    std::vector<DiskEvent> events;
    while (events.size() < count) {
        const auto more = files.take_events(std::chrono::milliseconds(1000));
        REQUIRE_FALSE(more.empty());
        events.insert(events.end(), more.begin(), more.end());
    }
    return events;
}

struct Fixture {
    Fixture(const CacheLayout& group, DType dtype)
        : layout(block_file_layout(group, kBlockSize, dtype, whole_share(group))),
          blocks(group, dtype, 4),
          files(folder.path(), {layout}, [this](int32_t, HostBlockId b) { return blocks.at(b); }) {
        write_file(path(), "");
    }
    std::filesystem::path path() const { return BlockFiles::path_of(folder.path(), kSegment); }
    bool write(HostBlockId block, uint64_t offset, uint64_t seed) {
        const DiskMove move{++number, 0, block, {kSegment, offset}, seed};
        files.add({}, {&move, 1});
        return await(files, 1).front().succeeded;
    }
    bool read(HostBlockId block, uint64_t offset, uint64_t seed) {
        const DiskMove move{++number, 0, block, {kSegment, offset}, seed};
        files.add({&move, 1}, {});
        const DiskEvent event = await(files, 1).front();
        CHECK(event.is_read);
        CHECK(event.number == number);
        return event.succeeded;
    }

    test::Folder folder;
    BlockFileLayout layout;
    Blocks blocks;
    uint64_t number = 0;
    BlockFiles files;
};

TEST_CASE("a block comes back from its file, of every kind of group") {
    CacheLayout latent = layers_of(3, 1);
    latent.kind = CacheLayout::Kind::latent;
    CacheLayout states = layers_of(3, 0);
    states.kind = CacheLayout::Kind::state;
    states.state_bytes = 100;
    for (const CacheLayout& group : {layers_of(3, 2), latent, states}) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
            Fixture test(group, dtype);
            CHECK(test.layout.value_bytes == test.blocks.bytes);
            CHECK(test.layout.runs.size() <= 2);
            test.blocks.fill(0, 1);
            test.blocks.fill(1, 2);
            CHECK(test.write(0, 8192, 77));
            CHECK(test.write(1, 0, 78));
            CHECK(test.read(2, 8192, 77));
            CHECK(test.blocks.equal(0, 2));
            CHECK(test.read(2, 0, 78));
            CHECK(test.blocks.equal(1, 2));
        }
    }
}

TEST_CASE("a block is not believed under another seed, at another place, cut or changed") {
    Fixture test(layers_of(2, 2), DType::i8);
    test.blocks.fill(0, 1);
    REQUIRE(test.write(0, 0, 77));
    REQUIRE(test.write(0, 8192, 77));
    CHECK_FALSE(test.read(1, 0, 78));
    CHECK_FALSE(test.read(1, 4096, 77));
    CHECK_FALSE(test.read(1, 65536, 77));
    const DiskMove elsewhere{++test.number, 0, 1, {kSegment + 1, 0}, 77};
    test.files.add({&elsewhere, 1}, {});
    CHECK_FALSE(await(test.files, 1).front().succeeded);
    const std::string whole = read_file(test.path());
    int64_t believed = 0;
    for (size_t at = 0; at < test.layout.bytes(); ++at) {
        std::fstream file(test.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(at));
        file.put(static_cast<char>(whole[at] ^ 4));
        file.close();
        believed += test.read(1, 0, 77) ? 1 : 0;
        std::fstream again(test.path(), std::ios::in | std::ios::out | std::ios::binary);
        again.seekp(static_cast<std::streamoff>(at));
        again.put(whole[at]);
    }
    CHECK(believed == 0);
    CHECK(test.read(1, 0, 77));
    std::filesystem::resize_file(test.path(), test.layout.bytes() - 1);
    CHECK_FALSE(test.read(1, 0, 77));
}

TEST_CASE("what ranks of one number wrote is read by ranks of another") {
    constexpr int32_t kLayers = 4;
    constexpr int32_t kHeads = 4;
    for (const DType dtype : {DType::bf16, DType::i8}) {
        const CacheLayout all = layers_of(kLayers, kHeads);
        Fixture whole(all, dtype);
        whole.blocks.fill(0, 3);
        REQUIRE(whole.write(0, 0, 5));
        const std::string expected = read_file(whole.path());
        for (const auto [stages, ranks] : {std::pair{1, 2}, {2, 1}, {2, 4}, {4, 2}}) {
            const test::Folder folder;
            const std::filesystem::path path = BlockFiles::path_of(folder.path(), kSegment);
            write_file(path, "");
            for (int32_t stage = 0; stage < stages; ++stage) {
                for (int32_t rank = 0; rank < ranks; ++rank) {
                    const CacheLayout part = layers_of(kLayers / stages, kHeads / ranks);
                    const BlockShare share{stage * kLayers / stages, kLayers, rank * kHeads / ranks,
                                           kHeads};
                    const BlockFileLayout layout =
                        block_file_layout(part, kBlockSize, dtype, share);
                    CHECK(layout.bytes() == whole.layout.bytes());
                    Blocks blocks(part, dtype, 1);
                    const auto block = [&](int32_t, HostBlockId b) { return blocks.at(b); };
                    // From the file that one rank wrote into the other one.
                    const DiskMove move{1, 0, 0, {kSegment, 0}, 5};
                    BlockFiles from(whole.folder.path(), {layout}, block);
                    from.add({&move, 1}, {});
                    REQUIRE(await(from, 1).front().succeeded);
                    BlockFiles to(folder.path(), {layout}, block);
                    to.add({}, {&move, 1});
                    REQUIRE(await(to, 1).front().succeeded);
                }
            }
            CHECK(read_file(path) == expected);
        }
    }
}

TEST_CASE("what was not begun is forgotten") {
    Fixture test(layers_of(2, 2), DType::f32);
    std::vector<DiskMove> writes;
    for (uint64_t i = 0; i < 100; ++i) writes.push_back({i + 1, 0, 0, {kSegment, i * 4096}, i});
    test.files.add({}, writes);
    test.files.clear();
    CHECK(test.files.take_events().empty());
    // Nothing is waited for where nothing is under way.
    CHECK(test.files.take_events(std::chrono::hours(1)).empty());
    CHECK(test.write(0, 0, 1));
}

}  // namespace
}  // namespace nvllm
