// Names in the Hugging Face cache.
#include "lib/checkpoint/model_directory.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>

#include "kernels/error.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using test::TemporaryFolder;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
constexpr const char* kOther = "0123ffff89abcdef0123456789abcdef01234567";

// Sets variables for one test and puts back what was there.
class Environment {
  public:
    Environment(const char* name, const std::string& value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        if (value.empty()) {
            ::unsetenv(name);
        } else {
            ::setenv(name, value.c_str(), 1);
        }
    }
    ~Environment() {
        if (before_) {
            ::setenv(name_, before_->c_str(), 1);
        } else {
            ::unsetenv(name_);
        }
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

  private:
    const char* name_;
    std::optional<std::string> before_;
};

// A cache with one model of two snapshots; main is the first.
struct Cache {
    TemporaryFolder folder;
    Environment hub{"HF_HUB_CACHE", folder.path().string()};

    Cache() {
        folder.write("models--org--name/refs/main", std::string(kCommit) + "\n");
        folder.write("models--org--name/refs/v1.0", kOther);
        folder.write("models--org--name/refs/refs/pr/7", kOther);
        add_snapshot("org--name", kCommit);
        add_snapshot("org--name", kOther);
    }
    void add_snapshot(const std::string& model, const std::string& commit) const {
        const auto blob = folder.write("models--" + model + "/blobs/c0ffee", "{}");
        const auto snapshot = folder.path() / ("models--" + model) / "snapshots" / commit;
        std::filesystem::create_directories(snapshot);
        std::filesystem::remove(snapshot / "config.json");
        std::filesystem::create_symlink("../../blobs/c0ffee", snapshot / "config.json");
    }
    std::filesystem::path snapshot(const char* commit) const {
        return folder.path() / "models--org--name" / "snapshots" / commit;
    }
};

void check_not_found(const std::string& model, std::initializer_list<std::string> parts) {
    CAPTURE(model);
    try {
        resolve_model_directory(model);
        FAIL("was found");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::not_found);
        const std::string message = error.what();
        for (const std::string& part : parts) {
            CHECK_MESSAGE(message.find(part) != std::string::npos, message);
        }
    }
}

TEST_CASE("model directory: a folder is itself") {
    const TemporaryFolder folder;
    CHECK(resolve_model_directory(folder.path().string()) == folder.path());
    const auto file = folder.write("model.gguf", "x");
    CHECK_THROWS_WITH_AS(resolve_model_directory(file.string()),
                         doctest::Contains("is a file, and GGUF is not read"), Error);
    const auto weights = folder.write("model.safetensors", "x");
    folder.write("config.json", "{}");
    CHECK_THROWS_WITH_AS(resolve_model_directory(weights.string()),
                         doctest::Contains(folder.path().string().c_str()), Error);
}

TEST_CASE("model directory: branches, tags and commits") {
    const Cache cache;
    CHECK(resolve_model_directory("org/name") == cache.snapshot(kCommit));
    CHECK(resolve_model_directory("org/name@main") == cache.snapshot(kCommit));
    CHECK(resolve_model_directory("org/name@v1.0") == cache.snapshot(kOther));
    CHECK(resolve_model_directory("org/name@refs/pr/7") == cache.snapshot(kOther));
    CHECK(resolve_model_directory(std::string("org/name@") + kOther) == cache.snapshot(kOther));
    CHECK(resolve_model_directory("org/name@01234") == cache.snapshot(kCommit));
    check_not_found("org/name@0123", {"ambiguous", kCommit, kOther});
    check_not_found("org/name@012", {"no revision", "refs", "snapshots"});
    check_not_found("org/name@v2", {"no revision \"v2\""});
}

TEST_CASE("model directory: names without an organisation") {
    const Cache cache;
    cache.folder.write("models--gpt2/refs/main", kCommit);
    cache.add_snapshot("gpt2", kCommit);
    CHECK(resolve_model_directory("gpt2") ==
          cache.folder.path() / "models--gpt2" / "snapshots" / kCommit);
}

TEST_CASE("model directory: every place that was searched is named") {
    const Cache cache;
    check_not_found("org/other",
                    {"org/other", (cache.folder.path() / "models--org--other").string(),
                     std::filesystem::absolute("org/other").string()});
}

TEST_CASE("model directory: names never become paths") {
    const Cache cache;
    for (const char* model : {"", "//nothing", "a/b/c", "../x", "org/..", "org/name@../../x", "./x",
                              "a b", "org/name@", "@main", "org/"}) {
        check_not_found(model, {"no such folder, nor a name like org/name"});
    }
}

TEST_CASE("model directory: how a missing model is fetched, and what there is instead") {
    const Cache cache;
    check_not_found("org/nam", {"'hf download org/nam' fetches it", "the cache has org/name"});
    check_not_found("org/nam@v1", {"'hf download org/nam --revision v1'"});
    check_not_found("org/name@v3", {"'hf download org/name --revision v3'"});
    const TemporaryFolder other;
    CHECK_THROWS_WITH_AS(resolve_model_directory("org/name", other.path()),
                         doctest::Contains(("--cache-dir " + other.path().string()).c_str()),
                         Error);
    CHECK(resolve_model_directory("org/name", cache.folder.path()) == cache.snapshot(kCommit));
}

TEST_CASE("model directory: names of other programs") {
    const Cache cache;
    check_not_found("llama3.2:1b", {"Ollama", "hf download"});
    check_not_found("org/name-GGUF:Q4_K_M", {"GGUF file of org/name-GGUF", "hf download"});
    check_not_found("hf.co/org/name", {"'hf download org/name'"});
    check_not_found("https://huggingface.co/org/name/tree/main", {"'hf download org/name'"});
    check_not_found("https://example.com/model.gguf", {"is an address"});
    check_not_found("model-Q4_0.gguf", {"no such file, and GGUF is not read"});
    check_not_found("model.safetensors", {"no such file; give the folder"});
}

TEST_CASE("model directory: unfinished downloads") {
    const Cache cache;
    std::filesystem::create_symlink("../../blobs/missing",
                                    cache.snapshot(kCommit) / "model.safetensors");
    check_not_found("org/name", {"incomplete", "model.safetensors"});
    std::filesystem::remove(cache.snapshot(kOther) / "config.json");
    check_not_found("org/name@v1.0", {"incomplete", "config.json"});
    std::filesystem::remove_all(cache.snapshot(kOther));
    check_not_found("org/name@v1.0", {"is commit", "'hf download org/name --revision v1.0'"});
    cache.folder.write("models--org--name/refs/main", "../../../etc");
    CHECK_THROWS_WITH_AS(resolve_model_directory("org/name"),
                         doctest::Contains("does not hold a commit"), Error);
}

TEST_CASE("model directory: which variable chooses the cache") {
    const Environment no_older("HUGGINGFACE_HUB_CACHE", "");
    const Environment direct("HF_HUB_CACHE", "/a");
    const Environment home("HF_HOME", "/b");
    const Environment caches("XDG_CACHE_HOME", "/c");
    const Environment user("HOME", "/d");
    CHECK(hub_cache_directory() == "/a");
    const Environment no_direct("HF_HUB_CACHE", "");
    {
        const Environment older("HUGGINGFACE_HUB_CACHE", "/e");
        CHECK(hub_cache_directory() == "/e");
    }
    CHECK(hub_cache_directory() == "/b/hub");
    const Environment no_home("HF_HOME", "");
    CHECK(hub_cache_directory() == "/c/huggingface/hub");
    const Environment no_caches("XDG_CACHE_HOME", "");
    CHECK(hub_cache_directory() == "/d/.cache/huggingface/hub");
    const Environment no_user("HOME", "");
    CHECK(hub_cache_directory().empty());
}

}  // namespace
}  // namespace nvllm
