// Models that come, go and are replaced, with small models of this tree.
#include "lib/server/models/model_loader.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "kernels/error.h"
#include "tests/few_threads.h"
#include "tests/shared_data.h"

using namespace nvllm;
using namespace nvllm::server;

namespace {

EngineConfig small_config() {
    EngineConfig config;
    config.model.name = test::source_path("models/demo-draft").string();
    config.compute.placement.num_threads = 1;
    config.memory.kv_cache_bytes = uint64_t{1} << 20;
    config.memory.max_model_len = 128;
    return config;
}

struct Fixture {
    explicit Fixture(std::string backup_model = {})
        : loader({}, std::move(backup_model), models, metrics) {}

    // What became of the model of that name, once it is not loading any more.
    ModelState outcome(const std::string& name) const {
        const auto model = models.find(name);
        REQUIRE(model != nullptr);
        while (model->state() == ModelState::loading) std::this_thread::yield();
        return model->state();
    }

    ServerMetrics metrics;
    ModelSet models;
    ModelLoader loader;
};

}  // namespace

TEST_CASE("model loader: the first models are loaded, and then it is said") {
    Fixture fixture;
    fixture.loader.add({"one"}, small_config());
    CHECK_THROWS_AS(fixture.loader.add({"two", "one"}, small_config()), Error);
    std::optional<bool> said;
    fixture.loader.begin([&](bool is_loaded) { said = is_loaded; });
    fixture.loader.wait();
    CHECK(said == true);
    CHECK(fixture.outcome("one") == ModelState::ready);
}

TEST_CASE("model loader: what keeps a first model from loading is said and thrown") {
    Fixture fixture;
    EngineConfig config = small_config();
    config.model.name = test::source_path("models/none").string();
    fixture.loader.add({"one"}, config);
    std::optional<bool> said;
    fixture.loader.begin([&](bool is_loaded) { said = is_loaded; });
    CHECK_THROWS_AS(fixture.loader.wait(), Error);
    CHECK(said == false);
    CHECK(fixture.outcome("one") == ModelState::failed);
}

TEST_CASE("model loader: models come and go later") {
    Fixture fixture;
    fixture.loader.add({"one"}, small_config());
    fixture.loader.begin([](bool) {});
    fixture.loader.wait();
    const std::string path = test::source_path("models/demo-draft").string();
    CHECK(fixture.loader.load("one", path)->code == "model_exists");
    CHECK_FALSE(fixture.loader.load("two", path));
    CHECK(fixture.outcome("two") == ModelState::ready);
    CHECK(fixture.models.find("two")->config().memory.max_model_len == 128);  // as the first
    const auto missing = fixture.loader.load("none", test::source_path("models/none").string());
    REQUIRE(missing);
    CHECK(missing->status == 404);
    CHECK(missing->param == "path");
    CHECK(fixture.models.find("none") == nullptr);
    // A folder that holds no model is found out while it is read.
    CHECK_FALSE(fixture.loader.load("broken", test::source_path("models").string()));
    CHECK(fixture.outcome("broken") == ModelState::failed);
    CHECK_FALSE(fixture.models.find("broken")->failure().empty());
    CHECK_FALSE(fixture.loader.unload("two"));
    CHECK(fixture.loader.unload("two")->status == 404);
    fixture.loader.end();
    fixture.loader.end_unused();
    // While the broker's thread holds the unloaded one it is in use; the server asks again later.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (fixture.models.all_active().size() > 2 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
        fixture.loader.end_unused();
    }
    CHECK(fixture.models.all_active().size() == 2);
}

TEST_CASE(
    "model loader: without a thread for a later model that model has failed, and others live") {
    Fixture fixture;
    fixture.loader.add({"one"}, small_config());
    fixture.loader.begin([](bool) {});
    fixture.loader.wait();
    const std::string path = test::source_path("models/demo-draft").string();
    {
        const test::FewThreads none(0);
        CHECK_FALSE(fixture.loader.load("two", path));
    }
    CHECK(fixture.outcome("two") == ModelState::failed);
    CHECK(fixture.models.find("two")->failure().find("a thread cannot be started") == 0);
    CHECK(fixture.outcome("one") == ModelState::ready);
    CHECK_FALSE(fixture.loader.unload("two"));
    CHECK_FALSE(fixture.loader.load("two", path));
    CHECK(fixture.outcome("two") == ModelState::ready);
}

TEST_CASE("model loader: a backup takes another one's names") {
    Fixture fixture(test::source_path("models/demo-draft").string());
    fixture.loader.add({"one", "also"}, small_config());
    fixture.loader.begin([](bool) {});
    fixture.loader.wait();
    const auto first = fixture.models.find("one");
    fixture.loader.replace(first);
    CHECK(first->state() == ModelState::unloading);
    CHECK(fixture.models.find("also") != first);
    CHECK(fixture.outcome("also") == ModelState::ready);
}

TEST_CASE("model loader: without a backup a model stays") {
    Fixture fixture;
    fixture.loader.add({"one"}, small_config());
    fixture.loader.replace(fixture.models.find("one"));
    CHECK(fixture.models.find("one")->state() == ModelState::loading);
}
