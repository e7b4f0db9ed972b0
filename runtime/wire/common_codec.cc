#include "runtime/wire/common_codec.h"

#include <algorithm>

namespace dlrun::wire {

void put(schema::TaskId::Builder to, const TaskId& from) {
  to.setJob(from.job.value);
  to.setRole(from.role);
  to.setRank(from.rank);
  to.setGeneration(from.generation.value);
}

Result<TaskId> get(schema::TaskId::Reader from) {
  TaskId id;
  id.job = JobId{from.getJob()};
  id.role = to_string(from.getRole());
  id.rank = from.getRank();
  id.generation = Generation{from.getGeneration()};
  if (id.role.size() > 256)
    return fail(Errc::kCorrupt, "task id: a role name of more than 256 bytes");
  return id;
}

void put(schema::Epoch::Builder to, Epoch from) {
  to.setTerm(from.term);
  to.setCounter(from.counter);
}

Epoch get(schema::Epoch::Reader from) { return {from.getTerm(), from.getCounter()}; }

void put(schema::FileEntry::Builder to, const io::FileEntry& from) {
  to.setUri(data_of(from.uri));
  to.setSizeBytes(from.size_bytes);
  to.setEtag(data_of(from.etag));
  to.setSource(from.source);
}

io::FileEntry get(schema::FileEntry::Reader from) {
  return {to_string(from.getUri()), from.getSizeBytes(), to_string(from.getEtag()),
          from.getSource()};
}

void put(schema::Split::Builder to, const io::Split& from) {
  to.setId(from.id);
  to.setPass(from.pass);
  to.setUri(data_of(from.uri));
  to.setEtag(data_of(from.etag));
  to.setBegin(from.begin);
  to.setEnd(from.end);
  to.setSkipRows(from.skip_rows);
}

io::Split get(schema::Split::Reader from) {
  io::Split s;
  s.id = from.getId();
  s.pass = from.getPass();
  s.uri = to_string(from.getUri());
  s.etag = to_string(from.getEtag());
  s.begin = from.getBegin();
  s.end = from.getEnd();
  s.skip_rows = from.getSkipRows();
  return s;
}

void put(capnp::List<schema::SplitProgress>::Builder to,
         const std::vector<io::SplitProgress>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].setSplitId(from[i].split_id);
    to[i].setRows(from[i].rows);
    to[i].setPass(from[i].pass);
    to[i].setWhole(from[i].whole != 0);
  }
}

std::vector<io::SplitProgress> get(capnp::List<schema::SplitProgress>::Reader from) {
  std::vector<io::SplitProgress> list;
  list.reserve(from.size());
  for (const auto item : from)
    list.push_back({item.getSplitId(), item.getRows(), item.getPass(), item.getWhole() ? 1u : 0u});
  return list;
}

void put(capnp::List<schema::LanePosition>::Builder to, const std::vector<io::LanePosition>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].setLane(from[i].lane);
    to[i].setPass(from[i].pass);
    to[i].setStep(from[i].step);
    to[i].setSplit(from[i].split);
    to[i].setRows(from[i].rows);
  }
}

std::vector<io::LanePosition> get(capnp::List<schema::LanePosition>::Reader from) {
  std::vector<io::LanePosition> list;
  list.reserve(from.size());
  for (const auto item : from)
    list.push_back(
        {item.getLane(), item.getPass(), item.getStep(), item.getSplit(), item.getRows()});
  return list;
}

void put(capnp::List<schema::InputCursor>::Builder to, const std::vector<io::InputCursor>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].setInput(from[i].input);
    put(to[i].initSplits(from[i].splits.size()), from[i].splits);
    to[i].setBegun(from[i].begun);
    to[i].setPass(from[i].pass);
    to[i].setStep(from[i].step);
    put(to[i].initLanes(from[i].lanes.size()), from[i].lanes);
  }
}

std::vector<io::InputCursor> get(capnp::List<schema::InputCursor>::Reader from) {
  std::vector<io::InputCursor> list;
  for (const auto item : from)
    list.push_back({to_string(item.getInput()), get(item.getSplits()), item.getBegun(),
                    item.getPass(), item.getStep(), get(item.getLanes())});
  return list;
}

void put(capnp::List<schema::StepReport>::Builder to, const std::vector<io::StepReport>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].setPass(from[i].pass);
    to[i].setSteps(from[i].steps);
    to[i].setEnded(from[i].ended);
  }
}

std::vector<io::StepReport> get(capnp::List<schema::StepReport>::Reader from) {
  std::vector<io::StepReport> list;
  for (const auto item : from) list.push_back({item.getPass(), item.getSteps(), item.getEnded()});
  return list;
}

void put(schema::LeaseAnswer::Builder to, const io::LeaseAnswer& from) {
  to.setState(static_cast<std::uint8_t>(from.state));
  auto splits = to.initSplits(from.splits.size());
  for (std::size_t i = 0; i < from.splits.size(); ++i) put(splits[i], from.splits[i]);
  if (!(from.start == io::InputStart{})) {
    auto start = to.initStart();
    put(start.initBegun(from.start.begun.size()), from.start.begun);
    start.setWorld(from.start.world);
    put(start.initLanes(from.start.lanes.size()), from.start.lanes);
  }
  if (!(from.steps == io::StepNews{})) {
    auto steps = to.initSteps();
    steps.setPass(from.steps.pass);
    steps.setLeast(from.steps.least);
    steps.setMost(from.steps.most);
    steps.setBound(from.steps.bound);
    steps.setFinal(from.steps.final);
    steps.setHeard(from.steps.heard);
  }
}

Result<io::LeaseAnswer> get(schema::LeaseAnswer::Reader from) {
  io::LeaseAnswer answer;
  DLRUN_ASSIGN(answer.state, get_enum(from.getState(), io::LeaseState::kEndOfInput, "lease state"));
  for (const auto split : from.getSplits()) answer.splits.push_back(get(split));
  const auto start = from.getStart();
  answer.start = {get(start.getBegun()), start.getWorld(), get(start.getLanes())};
  const auto steps = from.getSteps();
  answer.steps = {steps.getPass(),  steps.getLeast(), steps.getMost(),
                  steps.getBound(), steps.getFinal(), steps.getHeard()};
  return answer;
}

void put(schema::Column::Builder to, const io::FieldSpec& from) {
  to.setName(data_of(from.name));
  to.setType(static_cast<std::uint8_t>(from.type));
  to.setWidth(from.width);
  to.setMayMiss(from.may_miss);
  to.setBuckets(from.buckets);
  put(to.initDictionary(from.dictionary.size()), from.dictionary);
}

Result<io::FieldSpec> get(schema::Column::Reader from) {
  io::FieldSpec field;
  field.name = to_string(from.getName());
  DLRUN_ASSIGN(field.type, get_enum(from.getType(), io::FieldType::kBoolean, "column type"));
  if (static_cast<int>(field.type) == 0)
    return fail(Errc::kCorrupt, "column type: unknown value 0");
  field.width = from.getWidth();
  field.may_miss = from.getMayMiss();
  field.buckets = from.getBuckets();
  field.dictionary = get(from.getDictionary());
  return field;
}

void put(schema::TokenOptions::Builder to, const io::TokenOptions& from) {
  to.setType(static_cast<std::uint8_t>(from.type));
  to.setSequenceLength(from.sequence_length);
  to.setTail(static_cast<std::uint8_t>(from.tail));
  to.setSeparator(from.separator);
  to.setPadding(from.padding);
  to.setVocabulary(from.vocabulary);
}

Result<io::TokenOptions> get(schema::TokenOptions::Reader from) {
  io::TokenOptions tokens;
  DLRUN_ASSIGN(tokens.type,
               get_enum(from.getType(), io::TokenOptions::Type::kI32, "type of tokens"));
  tokens.sequence_length = from.getSequenceLength();
  DLRUN_ASSIGN(tokens.tail,
               get_enum(from.getTail(), io::TokenOptions::Tail::kFail, "tail of tokens"));
  tokens.separator = from.getSeparator();
  tokens.padding = from.getPadding();
  tokens.vocabulary = from.getVocabulary();
  return tokens;
}

void put(schema::InputSpec::Builder to, const io::InputSpec& from) {
  to.setName(from.name);
  put(to.initUris(from.uris.size()), from.uris);
  to.setFormat(static_cast<std::uint8_t>(from.format));
  to.setIndexBase(from.index_base);
  to.setDelimiter(static_cast<std::uint8_t>(from.delimiter));
  to.setHeader(from.header);
  to.setLabelColumn(from.label_column);
  to.setBatchRows(from.batch_rows);
  to.setPasses(from.passes);
  to.setShuffle(from.shuffle);
  to.setSeed(from.seed);
  to.setSplitBytes(from.split_bytes);
  to.setOnBadRecord(static_cast<std::uint8_t>(from.on_bad_record));
  to.setBadRecordsMax(from.bad_records_max);
  auto columns = to.initColumns(from.columns.size());
  for (std::size_t i = 0; i < from.columns.size(); ++i) put(columns[i], from.columns[i]);
  put(to.initMissing(from.missing.size()), from.missing);
  to.setNewlinesInQuotes(from.newlines_in_quotes);
  to.setRecordBytesMax(from.record_bytes_max);
  put(to.initTokens(), from.tokens);
  to.setQuarantine(data_of(from.quarantine));
  to.setMode(static_cast<std::uint8_t>(from.mode));
  to.setStaticBy(static_cast<std::uint8_t>(from.static_by));
  to.setLanes(from.lanes);
  to.setEnds(static_cast<std::uint8_t>(from.ends));
  to.setSkipBatches(from.skip_batches);
  to.setTakeBatches(from.take_batches);
  auto weights = to.initWeights(from.weights.size());
  for (std::size_t i = 0; i < from.weights.size(); ++i) weights.set(i, from.weights[i]);
}

Result<io::InputSpec> get(schema::InputSpec::Reader from) {
  io::InputSpec s;
  s.name = to_string(from.getName());
  s.uris = get(from.getUris());
  DLRUN_ASSIGN(s.format, get_enum(from.getFormat(), io::Format::kTokens, "input format"));
  if (static_cast<int>(s.format) == 0) return fail(Errc::kCorrupt, "input format: unknown value 0");
  s.index_base = from.getIndexBase();
  s.delimiter = static_cast<char>(from.getDelimiter());
  s.header = from.getHeader();
  s.label_column = from.getLabelColumn();
  s.batch_rows = from.getBatchRows();
  s.passes = from.getPasses();
  s.shuffle = from.getShuffle();
  s.seed = from.getSeed();
  s.split_bytes = from.getSplitBytes();
  DLRUN_ASSIGN(s.on_bad_record,
               get_enum(from.getOnBadRecord(), io::OnBadRecord::kQuarantine, "on_bad_record"));
  s.bad_records_max = from.getBadRecordsMax();
  for (const auto column : from.getColumns()) {
    DLRUN_ASSIGN(auto field, get(column));
    s.columns.push_back(std::move(field));
  }
  if (from.hasMissing()) s.missing = get(from.getMissing());
  s.newlines_in_quotes = from.getNewlinesInQuotes();
  s.record_bytes_max = from.getRecordBytesMax();
  DLRUN_ASSIGN(s.tokens, get(from.getTokens()));
  s.quarantine = to_string(from.getQuarantine());
  DLRUN_ASSIGN(s.mode, get_enum(from.getMode(), io::Mode::kStatic, "mode of an input"));
  DLRUN_ASSIGN(s.static_by,
               get_enum(from.getStaticBy(), io::StaticBy::kBytes, "static parts of an input"));
  s.lanes = from.getLanes();
  DLRUN_ASSIGN(s.ends, get_enum(from.getEnds(), io::Ends::kWrap, "ends of an input"));
  s.skip_batches = from.getSkipBatches();
  s.take_batches = from.getTakeBatches();
  for (const std::uint32_t weight : from.getWeights()) s.weights.push_back(weight);
  return s;
}

void put(schema::SlotMap::Builder to, const ps::SlotMap& from) {
  put(to.initEpoch(), from.epoch);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
  for (const ShardId owner : from.owner) {
    if (runs.empty() || runs.back().first != owner.value) runs.emplace_back(owner.value, 0);
    ++runs.back().second;
  }
  auto list = to.initRuns(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    list[i].setShard(runs[i].first);
    list[i].setCount(runs[i].second);
  }
}

Result<ps::SlotMap> get(schema::SlotMap::Reader from) {
  ps::SlotMap map;
  map.epoch = get(from.getEpoch());
  for (const auto run : from.getRuns()) {
    if (run.getCount() > ps::kSlots - map.owner.size()) {
      return fail(Errc::kCorrupt, "slot map: more than " + std::to_string(ps::kSlots) + " slots");
    }
    map.owner.insert(map.owner.end(), run.getCount(), ShardId{run.getShard()});
  }
  if (!map.owner.empty() && map.owner.size() != ps::kSlots) {
    return fail(Errc::kCorrupt, "slot map: " + std::to_string(map.owner.size()) +
                                    " slots instead of " + std::to_string(ps::kSlots));
  }
  return map;
}

void put(schema::ShardEndpoint::Builder to, const ps::ShardEndpoint& from) {
  to.setShard(from.shard.value);
  to.setTcp(from.tcp);
  to.setIpc(data_of(from.ipc));
  to.setNode(from.node.value);
}

ps::ShardEndpoint get(schema::ShardEndpoint::Reader from) {
  ps::ShardEndpoint e;
  e.shard = ShardId{from.getShard()};
  e.tcp = to_string(from.getTcp());
  e.ipc = to_string(from.getIpc());
  e.node = NodeId{to_string(from.getNode())};
  return e;
}

void put(schema::PsView::Builder to, const ps::PsView& from) {
  put(to.initMap(), from.map);
  auto shards = to.initShards(from.shards.size());
  for (std::size_t i = 0; i < from.shards.size(); ++i) put(shards[i], from.shards[i]);
  to.setToken(token_data(from.token));
  to.setWorkers(from.workers);
}

Result<ps::PsView> get(schema::PsView::Reader from) {
  ps::PsView view;
  DLRUN_ASSIGN(view.map, get(from.getMap()));
  for (const auto shard : from.getShards()) view.shards.push_back(get(shard));
  DLRUN_ASSIGN(view.token, get_token(from.getToken()));
  view.workers = from.getWorkers();
  for (const ShardId owner : view.map.owner) {
    if (owner.value >= view.shards.size()) {
      return fail(Errc::kCorrupt, "slot map: shard " + std::to_string(owner.value) + " of " +
                                      std::to_string(view.shards.size()));
    }
  }
  return view;
}

void put(capnp::List<schema::EnvPair>::Builder to, const EnvList& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].setName(data_of(from[i].first));
    to[i].setValue(data_of(from[i].second));
  }
}

EnvList get(capnp::List<schema::EnvPair>::Reader from) {
  EnvList env;
  env.reserve(from.size());
  for (const auto pair : from)
    env.emplace_back(to_string(pair.getName()), to_string(pair.getValue()));
  return env;
}

void put(capnp::List<capnp::Data>::Builder to, const std::vector<std::string>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) to.set(i, data_of(from[i]));
}

std::vector<std::string> get(capnp::List<capnp::Data>::Reader from) {
  std::vector<std::string> list;
  list.reserve(from.size());
  for (const auto item : from) list.push_back(to_string(item));
  return list;
}

void put(capnp::List<schema::InputSpec>::Builder to, const std::vector<io::InputSpec>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) put(to[i], from[i]);
}

Result<std::vector<io::InputSpec>> get(capnp::List<schema::InputSpec>::Reader from) {
  std::vector<io::InputSpec> list;
  for (const auto item : from) {
    DLRUN_ASSIGN(auto spec, get(item));
    list.push_back(std::move(spec));
  }
  return list;
}

void put(capnp::List<schema::FileEntry>::Builder to, const std::vector<io::FileEntry>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) put(to[i], from[i]);
}

std::vector<io::FileEntry> get(capnp::List<schema::FileEntry>::Reader from) {
  std::vector<io::FileEntry> list;
  list.reserve(from.size());
  for (const auto item : from) list.push_back(get(item));
  return list;
}

void put(capnp::List<schema::SplitKey>::Builder to, const std::vector<io::SplitKey>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].setSplitId(from[i].split_id);
    to[i].setPass(from[i].pass);
  }
}

std::vector<io::SplitKey> get(capnp::List<schema::SplitKey>::Reader from) {
  std::vector<io::SplitKey> list;
  list.reserve(from.size());
  for (const auto item : from) list.push_back({item.getSplitId(), item.getPass()});
  return list;
}

Result<Token> get_token(capnp::Data::Reader from) {
  Token token{};
  if (from.size() == 0) return token;
  if (from.size() != token.size()) {
    return fail(Errc::kCorrupt, "token of " + std::to_string(from.size()) + " bytes instead of 32");
  }
  std::copy(from.begin(), from.end(), token.begin());
  return token;
}

}  // namespace dlrun::wire
