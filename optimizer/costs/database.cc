#include "optimizer/costs/database.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>

namespace rewright::optimizer {

namespace {

constexpr int kSchemaVersion = 1;

}  // namespace

struct CostDatabase::Impl {
  sqlite3* database = nullptr;
  std::mutex mutex;  // a statement belongs to one thread at a time
  sqlite3_stmt *find = nullptr, *store = nullptr, *find_choice = nullptr, *store_choice = nullptr;

  ~Impl() { close(); }

  void close() {
    for (sqlite3_stmt* statement : {find, store, find_choice, store_choice}) sqlite3_finalize(statement);
    sqlite3_close(database);
    find = store = find_choice = store_choice = nullptr;
    database = nullptr;
  }

  bool execute(const char* statement) { return sqlite3_exec(database, statement, nullptr, nullptr, nullptr) == SQLITE_OK; }

  bool is_busy() {
    return (sqlite3_errcode(database) & 0xff) == SQLITE_BUSY || (sqlite3_errcode(database) & 0xff) == SQLITE_LOCKED;
  }

  int version() {
    int value = -1;
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &statement, nullptr) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
      value = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return value;
  }

  bool prepare_statements() {
    const auto prepare = [&](const char* text, sqlite3_stmt** to) {
      sqlite3_finalize(*to);
      *to = nullptr;
      return sqlite3_prepare_v2(database, text, -1, to, nullptr) == SQLITE_OK;
    };
    return prepare("SELECT seconds FROM costs WHERE device=? AND signature=?", &find) &&
           prepare("INSERT OR REPLACE INTO costs VALUES(?, ?, ?)", &store) &&
           prepare("SELECT choice FROM choices WHERE device=? AND work=?", &find_choice) &&
           prepare("INSERT OR REPLACE INTO choices VALUES(?, ?, ?)", &store_choice);
  }

  enum class Opened { kYes, kBusy, kNo };
  // kNo: the file cannot be used; kBusy: another process has locked it.
  Opened open(const std::string& file, std::chrono::milliseconds patience) {
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(file.c_str(), &database, flags, nullptr) != SQLITE_OK) return Opened::kNo;
    sqlite3_busy_timeout(database, static_cast<int>(patience.count()));
    const int found = version();
    if (found < 0 && is_busy()) return Opened::kBusy;
    if (found != 0 && found != kSchemaVersion) return Opened::kNo;
    const auto begin = [&] {
      return execute(
                 "CREATE TABLE IF NOT EXISTS costs(device TEXT NOT NULL, signature TEXT NOT NULL, seconds REAL, "
                 "PRIMARY KEY(device, signature)) WITHOUT ROWID") &&
             execute(
                 "CREATE TABLE IF NOT EXISTS choices(device TEXT NOT NULL, work TEXT NOT NULL, choice TEXT NOT NULL, "
                 "PRIMARY KEY(device, work)) WITHOUT ROWID") &&
             execute(("PRAGMA user_version=" + std::to_string(kSchemaVersion)).c_str());
    };
    // A complete file is opened without writing, which another process's lock would prevent.
    if ((found == kSchemaVersion && prepare_statements()) || (begin() && prepare_statements())) return Opened::kYes;
    return is_busy() ? Opened::kBusy : Opened::kNo;
  }
};

namespace {

void bind(sqlite3_stmt* statement, int number, const std::string& text) {
  sqlite3_bind_text(statement, number, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
}

}  // namespace

CostDatabase::CostDatabase(const std::filesystem::path& file, std::chrono::milliseconds patience)
    : impl_(std::make_unique<Impl>()) {
  std::error_code error;
  if (!file.empty()) {
    std::filesystem::create_directories(file.parent_path(), error);
    Impl::Opened opened = impl_->open(file.string(), patience);
    if (opened == Impl::Opened::kNo) {
      impl_->close();
      std::filesystem::rename(file, file.string() + ".damaged-" + std::to_string(getpid()), error);
      if (!error) opened = impl_->open(file.string(), patience);
    }
    if (opened == Impl::Opened::kYes) return;
    impl_->close();
  }
  impl_->open(":memory:", patience);
}

CostDatabase::~CostDatabase() = default;

std::optional<std::optional<double>> CostDatabase::find(const std::string& device, const std::string& signature) {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->find) return std::nullopt;
  sqlite3_reset(impl_->find);
  bind(impl_->find, 1, device);
  bind(impl_->find, 2, signature);
  std::optional<std::optional<double>> result;
  if (sqlite3_step(impl_->find) == SQLITE_ROW) {
    result.emplace();
    if (sqlite3_column_type(impl_->find, 0) != SQLITE_NULL) *result = sqlite3_column_double(impl_->find, 0);
  }
  sqlite3_reset(impl_->find);
  return result;
}

void CostDatabase::store(const std::string& device, std::span<const Entry> entries) {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->store || entries.empty()) return;
  if (!impl_->execute("BEGIN IMMEDIATE")) return;  // another process has the lock: costs are measured again
  for (const Entry& entry : entries) {
    sqlite3_reset(impl_->store);
    bind(impl_->store, 1, device);
    bind(impl_->store, 2, entry.signature);
    if (entry.seconds)
      sqlite3_bind_double(impl_->store, 3, *entry.seconds);
    else
      sqlite3_bind_null(impl_->store, 3);
    sqlite3_step(impl_->store);  // a failure only means that it is measured again
  }
  sqlite3_reset(impl_->store);
  impl_->execute("COMMIT");
}

std::vector<CostDatabase::Entry> CostDatabase::all(const std::string& device) {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Entry> entries;
  sqlite3_stmt* statement = nullptr;
  constexpr const char* kStatement = "SELECT signature, seconds FROM costs WHERE device=? ORDER BY signature";
  if (sqlite3_prepare_v2(impl_->database, kStatement, -1, &statement, nullptr) == SQLITE_OK) {
    sqlite3_bind_text(statement, 1, device.data(), static_cast<int>(device.size()), SQLITE_STATIC);
    while (sqlite3_step(statement) == SQLITE_ROW) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
      Entry entry{std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0))), std::nullopt};
      if (sqlite3_column_type(statement, 1) != SQLITE_NULL) entry.seconds = sqlite3_column_double(statement, 1);
      entries.push_back(std::move(entry));
    }
  }
  sqlite3_finalize(statement);
  return entries;
}

std::optional<std::string> CostDatabase::find_choice(const std::string& device, const std::string& work) {
  const std::lock_guard lock(impl_->mutex);
  sqlite3_stmt* const statement = impl_->find_choice;
  if (!statement) return std::nullopt;
  bind(statement, 1, device);
  bind(statement, 2, work);
  std::optional<std::string> result;
  if (sqlite3_step(statement) == SQLITE_ROW)
    result.emplace(reinterpret_cast<const char*>(sqlite3_column_text(statement, 0)),
                   static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
  sqlite3_reset(statement);
  return result;
}

void CostDatabase::store_choice(const std::string& device, const std::string& work, const std::string& choice) {
  const std::lock_guard lock(impl_->mutex);
  sqlite3_stmt* const statement = impl_->store_choice;
  if (!statement) return;
  bind(statement, 1, device);
  bind(statement, 2, work);
  bind(statement, 3, choice);
  sqlite3_step(statement);  // a failure only means that it is chosen again
  sqlite3_reset(statement);
}

std::filesystem::path CostDatabase::default_file() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::filesystem::path(cache) / "rewright" / "costs.sqlite";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".cache" / "rewright" / "costs.sqlite";
  return {};
}

}  // namespace rewright::optimizer
