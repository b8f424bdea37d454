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

struct House {
    explicit House(ServerConfig given = {}) : config(std::move(given)) {}

    // What became of the model of that name, once it is not loading any more.
    ModelState outcome(const std::string& name) const {
        const auto model = models.find(name);
        REQUIRE(model != nullptr);
        while (model->state() == ModelState::loading) std::this_thread::yield();
        return model->state();
    }

    const ServerConfig config;
    ServerMetrics metrics;
    ModelSet models;
    ModelLoader loader{config, models, metrics};
};

}  // namespace

TEST_CASE("model loader: the first models are loaded, and then it is said") {
    House house;
    house.loader.add({"one"}, small_config());
    CHECK_THROWS_AS(house.loader.add({"two", "one"}, small_config()), Error);
    std::optional<bool> said;
    house.loader.begin([&](bool is_loaded) { said = is_loaded; });
    house.loader.wait();
    CHECK(said == true);
    CHECK(house.outcome("one") == ModelState::ready);
}

TEST_CASE("model loader: what keeps a first model from loading is said and thrown") {
    House house;
    EngineConfig config = small_config();
    config.model.name = test::source_path("models/none").string();
    house.loader.add({"one"}, config);
    std::optional<bool> said;
    house.loader.begin([&](bool is_loaded) { said = is_loaded; });
    CHECK_THROWS_AS(house.loader.wait(), Error);
    CHECK(said == false);
    CHECK(house.outcome("one") == ModelState::failed);
}

TEST_CASE("model loader: models come and go later") {
    House house;
    house.loader.add({"one"}, small_config());
    house.loader.begin([](bool) {});
    house.loader.wait();
    const std::string path = test::source_path("models/demo-draft").string();
    CHECK(house.loader.load("one", path)->code == "model_exists");
    CHECK_FALSE(house.loader.load("two", path));
    CHECK(house.outcome("two") == ModelState::ready);
    CHECK(house.models.find("two")->config().memory.max_model_len == 128);  // as the first
    const auto missing = house.loader.load("none", test::source_path("models/none").string());
    REQUIRE(missing);
    CHECK(missing->status == 404);
    CHECK(missing->param == "path");
    CHECK(house.models.find("none") == nullptr);
    // A folder that holds no model is found out while it is read.
    CHECK_FALSE(house.loader.load("broken", test::source_path("models").string()));
    CHECK(house.outcome("broken") == ModelState::failed);
    CHECK_FALSE(house.models.find("broken")->failure().empty());
    CHECK_FALSE(house.loader.unload("two"));
    CHECK(house.loader.unload("two")->status == 404);
    house.loader.end();
    house.loader.end_unused();
    // While the broker's thread holds the unloaded one it is in use; the server asks again later.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (house.models.all_active().size() > 2 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
        house.loader.end_unused();
    }
    CHECK(house.models.all_active().size() == 2);
}

TEST_CASE(
    "model loader: without a thread for a later model that model has failed, and others live") {
    House house;
    house.loader.add({"one"}, small_config());
    house.loader.begin([](bool) {});
    house.loader.wait();
    const std::string path = test::source_path("models/demo-draft").string();
    {
        const test::FewThreads none(0);
        CHECK_FALSE(house.loader.load("two", path));
    }
    CHECK(house.outcome("two") == ModelState::failed);
    CHECK(house.models.find("two")->failure().find("a thread cannot be started") == 0);
    CHECK(house.outcome("one") == ModelState::ready);
    CHECK_FALSE(house.loader.unload("two"));
    CHECK_FALSE(house.loader.load("two", path));
    CHECK(house.outcome("two") == ModelState::ready);
}

TEST_CASE("model loader: a backup takes another one's names") {
    ServerConfig config;
    config.backup_model = test::source_path("models/demo-draft").string();
    House house(config);
    house.loader.add({"one", "also"}, small_config());
    house.loader.begin([](bool) {});
    house.loader.wait();
    const auto first = house.models.find("one");
    house.loader.replace(first);
    CHECK(first->state() == ModelState::unloading);
    CHECK(house.models.find("also") != first);
    CHECK(house.outcome("also") == ModelState::ready);
}

TEST_CASE("model loader: without a backup a model stays") {
    House house;
    house.loader.add({"one"}, small_config());
    house.loader.replace(house.models.find("one"));
    CHECK(house.models.find("one")->state() == ModelState::loading);
}
