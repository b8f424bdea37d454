// Batches over a made-up server: order, retries, restarts at every point, cancelling, expiry.
#include "lib/server/batches/batch_service.h"

#include <doctest/doctest.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "kernels/error.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::json;
using test::TemporaryFolder;

std::string input_of(int num_lines) {
    std::string input;
    for (int i = 0; i < num_lines; ++i) {
        input += R"({"custom_id":"line)" + std::to_string(i) +
                 R"(","method":"POST","url":"/v1/completions","body":{"number":)" +
                 std::to_string(i) + "}}\n";
    }
    return input;
}

// Answers each line with its own body, but as `answer_of` says.
struct MadeUpServer {
    explicit MadeUpServer(const std::filesystem::path& folder, int32_t concurrency = 4)
        : service({.directory = folder, .concurrency = concurrency},
                  [this](std::shared_ptr<BatchTransaction> line) { return start(line); }) {}

    bool start(const std::shared_ptr<BatchTransaction>& line) {
        const int number = Json::parse(line->request().body).at("number");
        const std::lock_guard lock(mutex);
        started.push_back(number);
        if (num_refused > 0 && num_refused-- > 0) return false;
        if (holds) {
            held.push_back(line);
            return true;
        }
        HttpResponse response = answer_of(number);
        line->respond(std::move(response));
        return true;
    }

    Batch add(int num_lines) {
        const auto file = service.files().add("alice", "in.jsonl", "batch", input_of(num_lines));
        Batch batch;
        batch.endpoint = "/v1/completions";
        batch.input_file_id = file->id;
        batch.completion_window = "24h";
        const Batch added = service.batches().add("alice", batch);
        service.tell();
        return added;
    }

    Batch wait_for(const std::string& id, const std::string& status) {
        for (int i = 0; i < 1000; ++i) {
            const auto batch = service.batches().find("alice", id);
            if (batch && batch->status == status) return *batch;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        FAIL("the batch did not become ", status);
        return {};
    }

    std::vector<Json> lines_of(const std::optional<std::string>& file) {
        std::vector<Json> lines;
        if (!file) return lines;
        std::istringstream text(service.files().content("alice", *file).value());
        for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
        return lines;
    }

    std::mutex mutex;
    std::vector<int> started;
    std::vector<std::shared_ptr<BatchTransaction>> held;
    bool holds = false;
    int num_refused = 0;
    std::function<HttpResponse(int)> answer_of = [](int number) {
        HttpResponse response;
        response.body = R"({"answer":)" + std::to_string(number) + "}";
        return response;
    };
    BatchService service;
};

std::set<std::string> ids_of(const std::vector<Json>& lines) {
    std::set<std::string> ids;
    for (const Json& line : lines) ids.insert(line.at("custom_id"));
    return ids;
}

TEST_CASE("every line has its response, faults in a file of their own") {
    TemporaryFolder folder;
    MadeUpServer server(folder.path());
    server.answer_of = [](int number) {
        HttpResponse response;
        response.status = number % 3 == 0 ? 400 : 200;
        response.body = R"({"answer":)" + std::to_string(number) + "}";
        return response;
    };
    server.num_refused = 2;  // there is no room at first
    server.service.begin();
    const Batch batch = server.wait_for(server.add(10).id, "completed");
    CHECK(batch.request_counts.total == 10);
    CHECK(batch.request_counts.completed == 6);
    CHECK(batch.request_counts.failed == 4);
    const auto output = server.lines_of(batch.output_file_id);
    CHECK(ids_of(output) ==
          std::set<std::string>{"line1", "line2", "line4", "line5", "line7", "line8"});
    CHECK(ids_of(server.lines_of(batch.error_file_id)).size() == 4);
    for (const Json& line : output) {
        const std::string id = line.at("custom_id");
        CHECK(line.at("response").at("body").at("answer") == std::stoi(id.substr(4)));
        CHECK(line.at("error").is_null());
    }
    CHECK(!server.service.batches().find("bob", batch.id));
    CHECK(!server.service.files().content("bob", *batch.output_file_id));
}

TEST_CASE("a loaded server is asked again") {
    TemporaryFolder folder;
    MadeUpServer server(folder.path());
    std::set<int> seen;
    server.answer_of = [&](int number) {
        HttpResponse response;
        response.status = seen.insert(number).second ? (number % 2 == 0 ? 429 : 503) : 200;
        response.body = "{}";
        return response;
    };
    server.service.begin();
    const Batch batch = server.wait_for(server.add(5).id, "completed");
    CHECK(batch.request_counts.completed == 5);
    CHECK(server.started.size() == 10);
}

TEST_CASE("a server that ended in the middle goes on where it was") {
    TemporaryFolder folder;
    std::string id;
    {
        MadeUpServer server(folder.path(), 2);
        int left = 7;
        server.answer_of = [&](int number) {
            if (--left == 0) server.service.end();
            HttpResponse response;
            response.body = R"({"answer":)" + std::to_string(number) + "}";
            return response;
        };
        id = server.add(50).id;
        server.service.begin();
        while (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const auto results = folder.path() / "batches" / (id + ".output.jsonl");
    std::ofstream(results, std::ios::app) << R"({"id":"batch_req_1","custom_id":"line)";  // cut off
    MadeUpServer server(folder.path());
    server.service.begin();
    const Batch batch = server.wait_for(id, "completed");
    CHECK(batch.request_counts.completed == 50);
    const auto output = server.lines_of(batch.output_file_id);
    CHECK(output.size() == 50);
    CHECK(ids_of(output).size() == 50);
    CHECK(server.started.size() < 50);
}

TEST_CASE("a server that ended while it published does not compute again") {
    TemporaryFolder folder;
    std::string id, file;
    {
        MadeUpServer server(folder.path());
        server.service.begin();
        const Batch batch = server.wait_for(server.add(3).id, "completed");
        id = batch.id;
        file = *batch.output_file_id;
    }
    BatchStore(folder.path() / "batches").change(id, [](Batch& now) { now.status = "finalizing"; });
    SUBCASE("the file has its record") {}
    SUBCASE("the file was renamed and no more") {
        std::filesystem::remove(folder.path() / "files" / (file + ".json"));
    }
    SUBCASE("the file has an id and no more") {
        std::filesystem::remove(folder.path() / "files" / (file + ".json"));
        std::filesystem::rename(folder.path() / "files" / file,
                                folder.path() / "batches" / (id + ".output.jsonl"));
    }
    MadeUpServer server(folder.path());
    server.service.begin();
    const Batch batch = server.wait_for(id, "completed");
    CHECK(server.started.empty());
    CHECK(batch.output_file_id == file);
    CHECK(batch.request_counts.completed == 3);
    CHECK(server.lines_of(batch.output_file_id).size() == 3);
}

TEST_CASE("a cancelled batch keeps what it has, and names the rest") {
    TemporaryFolder folder;
    MadeUpServer server(folder.path(), 3);
    server.holds = true;
    server.service.begin();
    const std::string id = server.add(8).id;
    const auto num_held = [&] {
        const std::lock_guard lock(server.mutex);
        return server.held.size();
    };
    while (num_held() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    int num_given_up = 0;
    for (const auto& line : server.held) {
        line->on_disconnect([&](DisconnectReason why) {
            if (why == DisconnectReason::closed) ++num_given_up;
        });
    }
    server.held[1]->respond(server.answer_of(1));
    while (num_held() < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server.service.batches().change(id, [](Batch& batch) { batch.status = "cancelling"; });
    server.service.tell();
    const Batch batch = server.wait_for(id, "cancelled");
    CHECK(num_given_up == 2);
    CHECK(server.lines_of(batch.output_file_id).size() == 1);
    const auto rest = server.lines_of(batch.error_file_id);
    CHECK(rest.size() == 7);
    CHECK(rest.front().at("error").at("code") == "batch_cancelled");
}

TEST_CASE("a batch whose time is over") {
    TemporaryFolder folder;
    MadeUpServer server(folder.path());
    server.holds = true;
    const std::string id = server.add(3).id;
    server.service.batches().change(
        id, [](Batch& batch) { batch.expires_at = std::time(nullptr) - 1; });
    server.service.begin();
    const Batch batch = server.wait_for(id, "expired");
    CHECK(server.lines_of(batch.error_file_id).front().at("error").at("code") == "batch_expired");
}

TEST_CASE("a batch without an input fails, and the next one is computed") {
    TemporaryFolder folder;
    MadeUpServer server(folder.path());
    Batch broken;
    broken.input_file_id = "file-gone";
    const std::string id = server.service.batches().add("alice", broken).id;
    const std::string next = server.add(1).id;
    server.service.begin();
    const Batch batch = server.wait_for(id, "failed");
    REQUIRE(batch.errors);
    CHECK(batch.errors->data.front().code == "file_not_found");
    server.wait_for(next, "completed");
}

TEST_CASE("two processes do not work in one folder") {
    TemporaryFolder folder;
    MadeUpServer server(folder.path());
    CHECK_THROWS_AS(MadeUpServer(folder.path()), Error);
}

TEST_CASE("the store has a size") {
    TemporaryFolder folder;
    FileStore store(folder.path(), 10);
    const auto first = store.add("", "a", "batch", "123456");
    REQUIRE(first.ok());
    const auto second = store.add("", "b", "batch", "123456");
    REQUIRE(!second.ok());
    CHECK(second.fault().code == "storage_full");
    CHECK(store.remove("", first->id));
    CHECK(!store.remove("", first->id));
    CHECK(store.add("", "b", "batch", "123456").ok());
}

}  // namespace
}  // namespace nvllm::server
