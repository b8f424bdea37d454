// What lies in the Hugging Face cache, with sizes.
#include "lib/checkpoint/cached_models.h"

#include <doctest/doctest.h>

#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using test::TemporaryFolder;

TEST_CASE("cached models: revisions, sizes, unfinished downloads") {
    const TemporaryFolder cache;
    cache.write("models--org--name/refs/main", "c1");
    cache.write("models--org--name/refs/v2", "c2");
    const auto blob = cache.write("models--org--name/blobs/b", std::string(1000, 'x'));
    cache.write("models--org--name/blobs/d.incomplete", std::string(77, 'x'));
    cache.write("models--org--name/snapshots/c1/config.json", "{}");
    std::filesystem::create_symlink(
        blob, cache.path() / "models--org--name/snapshots/c1/model.safetensors");
    cache.write("models--org--name/snapshots/c2/config.json", "{ }");
    cache.write("models--gpt2/snapshots/c3/config.json", "{}");
    cache.write("models--org--broken/refs/main", "c9");
    cache.write("datasets--org--texts/refs/main", "c1");
    cache.write("version.txt", "1");

    const std::vector<CachedModel> models = cached_models(cache.path());
    REQUIRE(models.size() == 4);
    CHECK(models[0].name == "gpt2@c3");
    CHECK(models[1].name == "org/broken");
    CHECK(models[1].directory.empty());
    CHECK(models[2].name == "org/name");
    CHECK(models[2].bytes == 1002);
    CHECK(models[2].unfinished_bytes == 77);
    CHECK(models[3].name == "org/name@v2");
    CHECK(models[3].bytes == 3);
    CHECK(cached_models(cache.path() / "none").empty());
    CHECK(cached_models({}).empty());
}

TEST_CASE("cached models: the nearest name first") {
    const TemporaryFolder cache;
    for (const char* name : {"a--apple", "b--llama-2", "b--llama-3"}) {
        cache.write(std::string("models--") + name + "/refs/main", "c");
    }
    CHECK(cached_names_near(cache.path(), "b/llama-3b") ==
          std::vector<std::string>{"b/llama-3", "b/llama-2", "a/apple"});
}

}  // namespace
}  // namespace nvllm
