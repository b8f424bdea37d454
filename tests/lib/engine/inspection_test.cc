// The inspection server against clients of every kind; the engine behind it is a stand-in.
#include "lib/engine/inspection.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "kernels/error.h"
#include "lib/schedule/snapshot_json.h"

namespace nvllm {
namespace {

Snapshot small_snapshot(bool has_tree) {
    Snapshot snapshot;
    snapshot.config.block_size = 4;
    GroupSnapshot& group = snapshot.groups.emplace_back();
    group.states = {BlockState::free};
    group.references = {0};
    group.stats.blocks = {1, 0, 0, 1, 0};
    snapshot.has_tree = has_tree;
    return snapshot;
}

struct Server {
    explicit Server(const InspectionLimits& limits = quick())
        : folder(make_folder()),
          path(folder / "socket"),
          server(
              path, [this](SnapshotDetail detail) { return answer(detail); }, limits) {}
    ~Server() { std::filesystem::remove_all(folder); }

    static std::filesystem::path make_folder() {
        std::string name = (std::filesystem::temp_directory_path() / "inspectXXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        return name;
    }

    static InspectionLimits quick() {
        InspectionLimits limits;
        limits.patience = std::chrono::milliseconds(100);
        limits.idle = std::chrono::milliseconds(60'000);
        limits.between_snapshots = std::chrono::milliseconds(0);
        return limits;
    }

    std::future<Snapshot> answer(SnapshotDetail detail) {
        ++num_asked;
        std::promise<Snapshot> promise;
        std::future<Snapshot> future = promise.get_future();
        if (silent) {
            const std::lock_guard lock(mutex);
            kept.push_back(std::move(promise));
        } else if (!ended) {
            promise.set_value(small_snapshot(detail == SnapshotDetail::full));
        }
        return future;
    }

    std::filesystem::path folder;
    std::filesystem::path path;
    std::atomic<int> num_asked = 0;
    std::atomic<bool> silent = false;  // does not answer
    std::atomic<bool> ended = false;   // breaks its promise
    std::mutex mutex;
    std::vector<std::promise<Snapshot>> kept;
    InspectionServer server;
};

struct Client {
    explicit Client(const std::filesystem::path& path) : peer(connect_to_unix_socket(path)) {}

    void say(const std::string& text) {
        (void)!::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL);
    }
    // Up to a line's end; what came before the connection was closed otherwise.
    std::string line() {
        std::string text;
        char letter = 0;
        while (::recv(peer.get(), &letter, 1, 0) == 1) {
            if (letter == '\n') return text;
            text += letter;
        }
        return text + "<closed>";
    }
    std::string ask(const std::string& text) {
        say(text);
        return line();
    }

    OwnedDescriptor peer;
};

}  // namespace

TEST_CASE("an inspection server answers line by line") {
    Server server;
    struct stat info {};
    REQUIRE(::stat(server.path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    Client client(server.path);
    CHECK(snapshot_from_json(client.ask("snapshot\n"), "x").has_tree);
    CHECK(!snapshot_from_json(client.ask("summary\r\n"), "x").has_tree);
    CHECK(client.ask("what\n").find("error") != std::string::npos);
    // Lines that come together are answered one after the other, and in pieces too.
    client.say("summary\nsnapshot\nsum");
    CHECK(!snapshot_from_json(client.line(), "x").has_tree);
    CHECK(snapshot_from_json(client.line(), "x").has_tree);
    CHECK(!snapshot_from_json(client.ask("mary\n"), "x").has_tree);
    CHECK(server.num_asked == 5);
}

TEST_CASE("bad clients lose their connection and nobody else's") {
    Server server;
    Client good(server.path);
    Client half(server.path);
    half.say("snap");
    Client longwinded(server.path);
    longwinded.say(std::string(4000, 'x'));
    CHECK(half.line() == "<closed>");
    CHECK(longwinded.line() == "<closed>");
    CHECK(good.ask("summary\n").find("nvllm.snapshot") != std::string::npos);
    {
        Client gone(server.path);
        gone.say("snapshot\n");
    }
    CHECK(good.ask("summary\n").find("nvllm.snapshot") != std::string::npos);
}

TEST_CASE("connections beyond the limit are told so") {
    InspectionLimits limits = Server::quick();
    limits.max_connections = 2;
    Server server(limits);
    Client one(server.path);
    Client two(server.path);
    CHECK(one.ask("summary\n").find("nvllm.snapshot") != std::string::npos);
    CHECK(two.ask("summary\n").find("nvllm.snapshot") != std::string::npos);
    Client three(server.path);
    CHECK(three.line().find("too many connections") != std::string::npos);
}

TEST_CASE("an engine is asked once for all who wait, and may be busy or ending") {
    Server server;
    server.silent = true;
    Client one(server.path);
    Client two(server.path);
    one.say("summary\n");
    while (server.num_asked == 0) std::this_thread::yield();
    two.say("summary\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // longer than its patience
    CHECK(server.num_asked == 1);
    {
        const std::lock_guard lock(server.mutex);
        server.kept[0].set_value(small_snapshot(false));
    }
    CHECK(one.line().find("nvllm.snapshot") != std::string::npos);
    CHECK(two.line().find("nvllm.snapshot") != std::string::npos);
    server.silent = false;
    server.ended = true;
    CHECK(one.ask("summary\n").find("no snapshot") != std::string::npos);
}

TEST_CASE("a socket is taken over only when nobody listens") {
    Server server;
    CHECK_THROWS_AS(listen_on_unix_socket(server.path), Error);
    const std::filesystem::path stale = server.folder / "stale";
    listen_on_unix_socket(stale).reset();
    CHECK(std::filesystem::exists(stale));
    CHECK(listen_on_unix_socket(stale));
}

}  // namespace nvllm
