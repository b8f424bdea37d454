// Row C4 of the fault table: whichever allocation of a request fails, it is answered, and the
// server goes on as if nothing had been. NVLLM_SOAK=1 in the environment: every single one.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "lib/base/log.h"
#include "lib/server/server.h"
#include "tests/shared_data.h"

namespace {

// Of the whole process but for the client: how many allocations there are until one fails.
std::atomic<int64_t> num_until_failure = INT64_MAX;
thread_local bool is_spared = false;

bool fails_now() { return !is_spared && num_until_failure.fetch_sub(1) == 1; }

}  // namespace

// As the library's own, but for the failure. Not inlined: compilers would warn of malloc beside
// delete where they see through one of them only.
[[gnu::noinline]] void* operator new(size_t bytes) {
    while (true) {
        void* memory = fails_now() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
        if (memory != nullptr) return memory;
        const std::new_handler find_more = std::get_new_handler();
        if (find_more == nullptr) throw std::bad_alloc();
        find_more();
    }
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes + 1); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace nvllm::server {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFewRuns = 20;

bool soaks() {
    const char* given = std::getenv("NVLLM_SOAK");
    return given != nullptr && std::string_view(given) == "1";
}

ServedModel demo() {
    ServedModel served{{"demo"}, {}};
    served.config.model.name = test::source_path("models/demo").string();
    served.config.model.load_format = "metronome";
    served.config.compute.placement.num_threads = 1;
    return served;
}

ServerConfig config_of_test() {
    ServerConfig config;
    config.addresses.port = 0;
    return config;
}

class RunningServer {
  public:
    RunningServer() : server_(config_of_test(), {demo()}, "test") {
        server_.listen();
        thread_ = std::thread([this] { server_.run(); });
        while (!get("/ready").starts_with("HTTP/1.1 200")) std::this_thread::yield();
    }
    ~RunningServer() {
        server_.drain();
        thread_.join();
    }

    std::string get(const std::string& path) const {
        return ask("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    }
    std::string post(const std::string& path, const Json& body) const {
        const std::string text = body.dump();
        return ask("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                   "Content-Type: application/json\r\nContent-Length: " +
                   std::to_string(text.size()) + "\r\n\r\n" + text);
    }
    // Accepted, and ended in any way.
    std::pair<int64_t, int64_t> calls() const {
        const std::string answer = get("/nvllm/status");
        const Json calls = Json::parse(answer.substr(answer.find("\r\n\r\n") + 4)).at("calls");
        const auto count = [&](const char* name) { return calls.at(name).get<int64_t>(); };
        CHECK(count("open") == 0);
        return {count("accepted"), count("finished") + count("aborted") + count("failed")};
    }

  private:
    // All that comes until the server closes the connection.
    std::string ask(const std::string& request) const {
        const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
        const timeval patience{20, 0};
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(server_.port());
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        REQUIRE(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
        REQUIRE(::send(socket, request.data(), request.size(), 0) ==
                static_cast<ssize_t>(request.size()));
        std::string received(64 * 1024, '\0');
        size_t size = 0;
        ssize_t count = 1;
        while (count > 0 && size < received.size()) {
            count = ::recv(socket, received.data() + size, received.size() - size, 0);
            if (count > 0) size += static_cast<size_t>(count);
        }
        ::close(socket);
        received.resize(size);
        return received;
    }

    Server server_;
    std::thread thread_;
};

struct Question {
    std::string path;
    Json body;
};

std::vector<Question> requests() {
    const Json messages = Json::array({{{"role", "user"}, {"content", "Tell me of the river"}}});
    return {{"/v1/completions", {{"prompt", "Once upon a time"}, {"max_tokens", 3}}},
            {"/v1/completions", {{"prompt", "Once"}, {"max_tokens", 3}, {"stream", true}}},
            {"/v1/chat/completions", {{"messages", messages}, {"max_tokens", 3}}},
            {"/tokenize", {{"prompt", "Once upon a time"}}}};
}

// How many allocations the answer takes that there is when the server has its reserve together
// again; what other threads do meanwhile is among them.
int64_t count_allocations(const RunningServer& server, const Question& request) {
    num_until_failure = INT64_MAX;
    for (int tries = 0; tries < 1000; ++tries) {
        const int64_t before = num_until_failure;
        const std::string answer = server.post(request.path, request.body);
        if (answer.starts_with("HTTP/1.1 200")) return before - num_until_failure;
        REQUIRE(answer.starts_with("HTTP/1.1 503"));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL("the server does not come back");
    return 0;
}

// The status, after checks that the answer is one.
std::string check_response(const Question& request, const std::string& answer) {
    REQUIRE(answer.size() > 12);
    const std::string status = answer.substr(9, 3);
    CHECK((status == "200" || status == "500" || status == "503"));
    const bool is_stream = status == "200" && request.body.contains("stream");
    if (is_stream) {
        CHECK(answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
    } else {
        CHECK(Json::accept(answer.substr(answer.find("\r\n\r\n") + 4)));
    }
    return status;
}

TEST_CASE("want of memory: whichever allocation fails, the request is answered") {
    is_spared = true;
    ::setenv("NVLLM_METRONOME_MS", "0", 1);
    configure_log({.level = LogLevel::off});
    {
        const RunningServer server;
        std::map<std::string, int64_t> responses;
        for (const Question& request : requests()) {
            CAPTURE(request.path);
            const int64_t count = count_allocations(server, request);
            const int64_t stride = soaks() ? 1 : std::max<int64_t>(1, count / kFewRuns);
            for (int64_t number = 1; number <= count; number += stride) {
                CAPTURE(number);
                count_allocations(server, request);
                num_until_failure = number;
                const std::string answer = server.post(request.path, request.body);
                num_until_failure = INT64_MAX;
                ++responses[check_response(request, answer)];
            }
        }
        CHECK(responses["200"] > 0);
        for (const auto& [status, count] : responses) MESSAGE(count << " answers " << status);
        const auto [accepted, ended] = server.calls();
        CHECK(accepted == ended);
        for (const Question& request : requests()) count_allocations(server, request);
    }
    configure_log({});
    is_spared = false;
}

}  // namespace
}  // namespace nvllm::server
