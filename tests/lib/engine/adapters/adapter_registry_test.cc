// Names and options of adapters.
#include "lib/engine/adapters/adapter_registry.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/engine/adapters/adapter_folder.h"
#include "lib/engine/adapters/lora_settings.h"
#include "lib/model/lora/lora_targets.h"
#include "lib/model/weights/dummy_source.h"
#include "tests/error_of.h"
#include "tests/lib/checkpoint/adapter/written_adapter.h"

namespace nvllm {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::WrittenAdapter;

std::shared_ptr<const LoraTargets> some_targets() {
    ThreadPool threads(1);
    DummySource source(1, DType::f32, threads);
    auto targets = std::make_shared<LoraTargets>();
    const std::vector<LinearSpec> specs = {{"a.q_proj", 4, 6, false, ShardAxis::none}};
    targets->add(source, specs);
    return targets;
}

struct Registry {
    AdapterRegistry registry{
        some_targets(), {2, 4}, [this](int32_t id) { unloaded.push_back(id); }};
    std::vector<int32_t> unloaded;
};

std::string written(WrittenAdapter& adapter, int64_t rank = 2) {
    adapter.add_module("a.q_proj", rank, 4, 6);
    return adapter.written();
}

TEST_CASE("an adapter is loaded, found, replaced and unloaded by its name") {
    Registry test;
    WrittenAdapter adapter(2), other(3);
    const std::string folder = written(adapter);
    const auto loaded = test.registry.load("style", folder);
    REQUIRE(loaded.ok());
    CHECK(loaded->rank == 2);
    CHECK(loaded->ref.key.starts_with("style@"));
    const AdapterRef first = test.registry.find("style").value();
    CHECK(first.id == 1);
    CHECK(test.registry.load("style", folder).fault().kind == ErrorKind::bad_config);
    const auto replaced = test.registry.load("style", written(other, 3), true);
    REQUIRE(replaced.ok());
    CHECK(replaced->ref.key != first.key);
    CHECK(test.unloaded == std::vector<int32_t>{1});
    CHECK(test.registry.list().size() == 1);
    CHECK(test.registry.unload("style").ok());
    CHECK(test.unloaded == std::vector<int32_t>{1, 2});
    CHECK(test.registry.unload("style").fault().kind == ErrorKind::not_found);
    CHECK(test.registry.find("style").fault().message.find("none is loaded") != std::string::npos);
}

TEST_CASE("what cannot be loaded is a fault, and the others stay") {
    Registry test;
    WrittenAdapter large(5), good(2);
    CHECK(test.registry.load("large", written(large, 5)).fault().message.find("--max-lora-rank") !=
          std::string::npos);
    CHECK(test.registry.load("none", "/nowhere").fault().kind == ErrorKind::not_found);
    CHECK(test.registry.load("..", written(good)).fault().field == "lora_name");
    CHECK(test.registry.list().empty());
    AdapterRegistry disabled(nullptr, {}, [](int32_t) {});
    CHECK(disabled.load("a", "x").fault().message.find("--enable-lora") != std::string::npos);
}

TEST_CASE("names that may stand in a path, a metric and a request") {
    for (const char* name : {"a", "sql-lora", "org/name", "v1.2_x", "a:b"}) {
        CHECK(why_no_adapter_name(name).empty());
    }
    for (const std::string name : {"", ".", "..", "a b", "a\n", "\xc3\xa4"}) {
        CHECK_FALSE(why_no_adapter_name(name).empty());
    }
    CHECK_FALSE(why_no_adapter_name(std::string(129, 'a')).empty());
}

TEST_CASE("modules are NAME=FOLDER or vLLM's object") {
    const NamedAdapter plain = parse_named_adapter("a=/x/y=z");
    CHECK(plain.name == "a");
    CHECK(plain.folder == "/x/y=z");
    const NamedAdapter object =
        parse_named_adapter(R"({"name": "a", "path": "/x", "base_model_name": "b"})");
    CHECK(object.folder == "/x");
    for (const char* text :
         {"a", "a=", "=x", R"({"name": "a"})", R"({"name": "a", "what": "b"})"}) {
        CAPTURE(text);
        CHECK_FALSE(error_of(ErrorKind::usage, [&] { parse_named_adapter(text); }).empty());
    }
}

TEST_CASE("limits follow from the modules where no option says them") {
    WrittenAdapter large(40);
    LoraOptions options;
    CHECK(choose_adapters(options).limits.max_loras == 0);
    options.enabled = true;
    CHECK(choose_adapters(options).limits == AdapterLimits{8, 16});
    CHECK(choose_adapters(options).max_cpu_loras == 32);
    options.modules = {"large=" + written(large, 40)};
    CHECK(choose_adapters(options).limits.max_rank == 40);
    CHECK(choose_adapters(options).largest_bytes > 0);
    options.max_cpu_loras = 4;
    CHECK_FALSE(error_of(ErrorKind::usage, [&] { choose_adapters(options); }).empty());
}

TEST_CASE("limits of adapters that nobody asked for are refused") {
    LoraOptions options;
    options.max_loras = 4;
    CHECK(error_of(ErrorKind::usage, [&] { choose_adapters(options); }).find("--enable-lora") !=
          std::string::npos);
    options.enabled = true;
    CHECK(choose_adapters(options).limits.max_loras == 4);
}

TEST_CASE("a folder's adapters come, change and go") {
    Registry test;
    TemporaryFolder watched;
    WrittenAdapter one(2), two(3);
    const auto copy = [&](WrittenAdapter& adapter, int64_t rank, const char* name) {
        std::filesystem::copy(written(adapter, rank), watched.path() / name,
                              std::filesystem::copy_options::overwrite_existing |
                                  std::filesystem::copy_options::recursive);
    };
    copy(one, 2, "one");
    AdapterFolder folder(test.registry, watched.path());
    CHECK(folder.check().empty());
    CHECK(test.registry.find("one").ok());
    copy(two, 3, "two");
    CHECK(folder.check().empty());
    CHECK_FALSE(test.registry.find("two").ok());  // it may still be written
    CHECK(folder.check().empty());
    CHECK(test.registry.find("two").ok());
    copy(two, 3, "one");
    static_cast<void>(folder.check());
    static_cast<void>(folder.check());
    CHECK(test.registry.list().front().rank == 3);
    std::filesystem::remove_all(watched.path() / "two");
    static_cast<void>(folder.check());
    CHECK(test.registry.list().size() == 1);
    std::filesystem::create_directory(watched.path() / "bad");
    std::filesystem::copy(std::filesystem::path(written(one)) / "adapter_config.json",
                          watched.path() / "bad");
    static_cast<void>(folder.check());
    CHECK(folder.check().size() == 1);
    CHECK(folder.check().empty());  // once
}

}  // namespace
}  // namespace nvllm
