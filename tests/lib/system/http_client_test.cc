// Addresses, and answers of servers that behave and that do not.
#include "lib/system/http_client.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include "kernels/error.h"
#include "lib/system/unix_socket.h"

using namespace nvllm;

namespace {

// Answers one connection with these bytes, and keeps what it was asked.
class OneAnswer {
  public:
    explicit OneAnswer(std::string answer) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(listener_.get(), generic, size) == 0);
        REQUIRE(::listen(listener_.get(), 1) == 0);
        REQUIRE(::getsockname(listener_.get(), generic, &size) == 0);
        server.port = ntohs(address.sin_port);
        thread_ = std::thread([this, answer = std::move(answer)] {
            const OwnedDescriptor peer(::accept(listener_.get(), nullptr, nullptr));
            std::array<char, 4096> text{};
            const ssize_t count = ::recv(peer.get(), text.data(), text.size(), 0);
            asked = std::string(text.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
            ::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
        });
    }
    ~OneAnswer() { join(); }
    void join() {
        if (thread_.joinable()) thread_.join();
    }

    ServerAddress server;
    std::string asked;

  private:
    OwnedDescriptor listener_;
    std::thread thread_;
};

std::string fault_of(const ServerAddress& server, double timeout_s = 5.0) {
    try {
        http_get(server, "/health", {}, timeout_s);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::unavailable);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("addresses are read and written") {
    const ServerAddress server = parse_server_url("http://example:81/api/", "--url");
    CHECK(server.host == "example");
    CHECK(server.port == 81);
    CHECK(server.base_path == "/api");
    CHECK(server.text() == "http://example:81/api");
    CHECK(parse_server_url("http://[::1]:9", "--url").host == "::1");
    CHECK(parse_server_url("http://[::1]:9", "--url").text() == "http://[::1]:9");
    CHECK(parse_server_url("http://h", "--url").port == 80);
    CHECK(parse_server_url("unix:/run/a.sock", "--url").unix_socket == "/run/a.sock");
    for (const char* bad :
         {"https://h", "h:1", "http://", "http://h:0", "http://h:70000", "unix:"}) {
        CAPTURE(bad);
        CHECK_THROWS_WITH_AS(static_cast<void>(parse_server_url(bad, "--url")),
                             doctest::Contains("--url: "), Error);
    }
}

TEST_CASE("the body of a good answer, and the reason of every other") {
    OneAnswer good("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    CHECK(http_get(good.server, "/v1/models", {{"Authorization", "Bearer k"}}, 5.0) == "hi");
    good.join();
    CHECK(good.asked.starts_with("GET /v1/models HTTP/1.0\r\n"));
    CHECK(good.asked.find("Authorization: Bearer k\r\n") != std::string::npos);
    const OneAnswer busy("HTTP/1.1 503 Service Unavailable\r\n\r\n{\"status\":\"loading\"}");
    CHECK(fault_of(busy.server).find("/health: status 503: {\"status\":\"loading\"}") !=
          std::string::npos);
    const OneAnswer other("SSH-2.0\r\n");
    CHECK(fault_of(other.server).find("not HTTP") != std::string::npos);
    const OneAnswer nothing("");
    CHECK(fault_of(nothing.server).find("not HTTP") != std::string::npos);
}

TEST_CASE("nobody there, and nobody who answers in time") {
    ServerAddress server;
    {
        const OneAnswer gone("");
        server = gone.server;
        CHECK(fault_of(server) != "");
    }
    CHECK(fault_of(server).find("Connection refused") != std::string::npos);
    ServerAddress missing;
    missing.unix_socket = "/no/such/folder/a.sock";
    CHECK(fault_of(missing).find("no such socket") != std::string::npos);

    const auto path = std::filesystem::temp_directory_path() /
                      ("nvllm_http_client_" + std::to_string(::getpid()));
    const OwnedDescriptor mute = listen_on_unix_socket(path);
    ServerAddress silent;
    silent.unix_socket = path;
    const auto start = std::chrono::steady_clock::now();
    CHECK(fault_of(silent, 0.05).find("no answer in time") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
    std::filesystem::remove(path);
}
