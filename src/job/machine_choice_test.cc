#include "data/embedded.h"
#include "job/run_text.h"
#include "machine/machine.h"

namespace steelyard {
namespace {

const std::map<std::string, std::string> kFiles = {
    {"pods/ours.json",
     R"({"devices_per_node": 4, "network": {"interfaces": 2, "bandwidth_per_interface_per_direction": "25 GB/s",
         "source": "our contract"}, "host": {"memory": "1 TB", "operator": {"times": 1.5}}})"},
    {"pods/blackwell.json", R"({"devices": ["b200"]})"},
    {"pods/broken.json", R"({"devices_per_nod": 4, "host": {"memory": 5}})"},
    {"pods/cut.json", R"({"devices_per_node": )"}};

ReadJob job_with(const std::map<std::string, std::string>& changes) {
  JobContext context;
  context.folder = "pods";
  context.read_file = [](const std::string& path) -> tl::expected<std::string, std::string> {
    const auto file = kFiles.find(path);
    if (file == kFiles.end()) return tl::unexpected(std::string("cannot be read"));
    return file->second;
  };
  return job_of(run_with(changes), context);
}

TEST(MachineChoice, TheUsualOneIsAssumed) {
  const ReadJob job = job_with({});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->cluster.machine->name, "hgx-h100");
  EXPECT_FALSE(job->cluster.machine_said);
  EXPECT_TRUE(std::any_of(job->assumptions.begin(), job->assumptions.end(),
                          [](const Assumption& one) { return one.key == "cluster.machine"; }));
}

TEST(MachineChoice, OneOfTheList) {
  const ReadJob job = job_with({{"cluster.machine", "\"google-a3-high\""}});
  ASSERT_TRUE(job);
  EXPECT_DOUBLE_EQ(job->cluster.machine->network().value(), 100e9);
  EXPECT_TRUE(job->cluster.machine_said);
}

TEST(MachineChoice, ByTheNameItIsSoldUnder) {
  for (const char* name : {"a3-megagpu-8g", "google-a3-mega"}) {
    const ReadJob job = job_with({{"cluster.machine", '"' + std::string(name) + '"'}});
    ASSERT_TRUE(job) << name;
    EXPECT_EQ(job->cluster.machine->name, "google-a3-mega");
  }
  EXPECT_EQ(find_machine("h100-sxm-80gb"), nullptr);
}

TEST(MachineChoice, ItsDeviceWhereNoneIsNamed) {
  const ReadJob job = job_with({{"cluster.machine", "\"aws-p4d\""}, {"cluster.device", ""}});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->cluster.device->name, "a100-sxm-40gb");
  for (const char* machine : {"{ devices = [\"b200\"] }", "\"blackwell.json\""}) {
    const ReadJob own = job_with({{"cluster.machine", machine}, {"cluster.device", ""}});
    ASSERT_TRUE(own) << machine;
    EXPECT_EQ(own->cluster.device->name, "b200");
  }
  // A file that says no device leaves the question open.
  EXPECT_FALSE(job_with({{"cluster.machine", "\"ours.json\""}, {"cluster.device", ""}}));
}

TEST(MachineChoice, HowManyDevicesItHas) {
  const ReadJob rack = job_with({{"cluster.device", "\"gb200\""}, {"cluster.devices", "144"}});
  ASSERT_TRUE(rack);
  EXPECT_EQ(rack->cluster.devices_per_node.value(), 72);
  const ReadJob part = job_with({{"cluster.device", "\"gb200\""},
                                 {"cluster.devices", "144"},
                                 {"cluster.devices_per_node", "4"}});
  ASSERT_TRUE(part);
  EXPECT_EQ(part->cluster.devices_per_node.value(), 4);
}

TEST(MachineChoice, AFileIsLaidOverTheUsualOne) {
  const ReadJob job = job_with({{"cluster.machine", "\"ours.json\""}});
  ASSERT_TRUE(job);
  const Machine& machine = *job->cluster.machine;
  EXPECT_EQ(machine.name, "ours");
  EXPECT_EQ(machine.devices_per_node.value(), 4);
  EXPECT_DOUBLE_EQ(machine.network().value(), 50e9);
  EXPECT_DOUBLE_EQ(machine.host_operator, 1.5);
  EXPECT_EQ(machine.host_memory.value().value(), 1'000'000'000'000);
  EXPECT_EQ(machine.host_memory_bandwidth, find_machine("hgx-h100")->host_memory_bandwidth);
  EXPECT_EQ(job->cluster.devices_per_node.value(), 4);
}

TEST(MachineChoice, EachOfOursCouldBeAFileOfOnesOwn) {
  for (const EmbeddedFile& file : embedded_files_in("machines")) {
    JobContext context;
    context.read_file = [&](const std::string&) { return std::string(file.text); };
    const ReadJob job =
        job_of(run_with({{"cluster.machine", "\"own.json\""}, {"cluster.device", ""}}), context);
    ASSERT_TRUE(job) << file.path << ": " << job.error()[0].message;
    const Machine& known = *find_machine(job->cluster.machine->name);
    EXPECT_EQ(job->cluster.machine->network(), known.network()) << file.path;
    EXPECT_EQ(job->cluster.machine->host_memory, known.host_memory) << file.path;
    EXPECT_EQ(job->cluster.machine->host_operator, known.host_operator) << file.path;
    const MeasuredExchanges &own = job->cluster.machine->measured, &ours = known.measured;
    ASSERT_EQ(own.all_reduce.size(), ours.all_reduce.size()) << file.path;
    for (std::size_t i = 0; i < ours.all_reduce.size(); ++i)
      EXPECT_EQ(own.all_reduce[i].bus, ours.all_reduce[i].bus) << file.path;
    EXPECT_EQ(own.gather.size(), ours.gather.size()) << file.path;
    EXPECT_EQ(own.ring_step, ours.ring_step) << file.path;
    EXPECT_EQ(own.tree_step, ours.tree_step) << file.path;
    EXPECT_EQ(own.low, ours.low) << file.path;
  }
}

TEST(MachineChoice, ATableAndANetwork) {
  const ReadJob job = job_with({{"cluster.machine", "{ network = \"400 Gb/s\" }"}});
  ASSERT_TRUE(job);
  EXPECT_DOUBLE_EQ(job->cluster.machine->network().value(), 50e9);
  EXPECT_EQ(job->cluster.machine->interfaces, 8);
  const ReadJob said =
      job_with({{"cluster.machine", "\"google-a3-high\""}, {"cluster.network", "\"3.2 Tb/s\""}});
  ASSERT_TRUE(said);
  EXPECT_DOUBLE_EQ(said->cluster.machine->network().value(), 400e9);
  EXPECT_DOUBLE_EQ(find_machine("google-a3-high")->network().value(), 100e9);
}

// What one machine sends is shared by the devices that stand in it.
TEST(MachineChoice, ANetworkIsOfAsManyDevicesAsAreSaid) {
  struct Case {
    std::map<std::string, std::string> said;
    double of_a_device;
  };
  for (const Case& one :
       {Case{{{"cluster.network", "\"400 Gb/s\""}}, 50e9 / 8},
        Case{{{"cluster.network", "\"400 Gb/s\""}, {"cluster.devices_per_node", "4"}}, 50e9 / 4},
        // Half of a machine that is known has half of its interfaces.
        Case{{{"cluster.machine", "\"aws-p5\""},
              {"cluster.network", "\"400 Gb/s\""},
              {"cluster.devices_per_node", "4"}},
             50e9 / 8}}) {
    const ReadJob job = job_with(one.said);
    ASSERT_TRUE(job);
    EXPECT_DOUBLE_EQ(job->cluster.machine->network_per_device().value(), one.of_a_device);
  }
}

TEST(MachineChoice, ADeviceThatIsOnlyASizeHasNone) {
  const ReadJob job = job_with({{"cluster.device", "\"24gb\""},
                                {"cluster.devices", "64"},
                                {"cluster.machine", "{ devices_per_node = 2 }"}});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->cluster.machine, nullptr);
  EXPECT_EQ(job->cluster.devices_per_node.value(), 2);
}

TEST(MachineChoice, WrongOnesAreRefused) {
  const struct {
    const char* machine;
    const char* code;
    const char* message;
  } cases[] = {
      {"\"hgx-h10\"", "E106", "no machine is called \"hgx-h10\""},
      {"\"aws-p4d\"", "E229", "aws-p4d is not built with h100-sxm-80gb"},
      {"\"./none.json\"", "E100", "pods/none.json: cannot be read"},
      {"\"cut.json\"", "E101", ""},
      {"\"broken.json\"", "E104", "unknown key \"devices_per_nod\""},
      {"\"broken.json\"", "E105", "memory is 5"},
      {"8", "E105", "machine is 8"},
      {"{ devices_per_node = 0 }", "E107", "devices_per_node is 0"},
      {"{ devices = \"h100\" }", "E105", "devices is \"h100\""},
      {"{ devices = [\"h1000\"] }", "E111", "no device is called \"h1000\""},
      {"{ devices = [\"b200\"] }", "E229", "machine is not built with h100-sxm-80gb"},
      {"{ network = 400 }", "E105", "network is 400"},
      {"{ network = \"400\" }", "E105", "network is \"400\""},
      {"{ network = { interfaces = 0 } }", "E107", "interfaces is 0"},
      {"{ network = { interface = 1 } }", "E104", "unknown key \"interface\""},
      {"{ host = \"2 TB\" }", "E105", "host is \"2 TB\""},
      {"{ host = { memory_bandwidth = \"fast\" } }", "E105", "memory_bandwidth is \"fast\""},
      {"{ host = { operator = 2 } }", "E105", "operator is 2"},
      {"{ name = 1 }", "E105", "name is 1"},
      {"{ exchanges = \"400 Gb/s\" }", "E105", "exchanges is \"400 Gb/s\""},
      {"{ exchanges = { ring_step_microseconds = 10 } }", "E105",
       "exchanges lacks all_reduce or gather"},
      {"{ exchanges = { gather = 3 } }", "E105", "gather is 3"},
      {"{ exchanges = { gather = [{ machines = 2 }] } }", "E105", "gather has {"},
      {"{ exchanges = { gather = [{ machine = 2 }] } }", "E104", "unknown key \"machine\""},
      {"{ exchanges = { low = 2 } }", "E107", "low is 2"},
      {"{ exchanges = { tree_step = 2 } }", "E104", "unknown key \"tree_step\""},
  };
  for (const auto& wrong : cases) {
    SCOPED_TRACE(wrong.machine);
    const ReadJob job = job_with({{"cluster.machine", wrong.machine}});
    ASSERT_FALSE(job);
    EXPECT_TRUE(std::any_of(job.error().begin(), job.error().end(),
                            [&](const Diagnostic& one) {
                              return one.code == wrong.code &&
                                     one.message.starts_with(wrong.message);
                            }))
        << job.error()[0].code << " " << job.error()[0].message;
  }
  EXPECT_FALSE(job_with({{"cluster.network", "\"400\""}}));
  EXPECT_FALSE(job_with({{"cluster.network", "\"1 Kb/s\""}}));
  EXPECT_FALSE(job_with({{"cluster.device", "\"2xaws-p4de\""}}));
}

}  // namespace
}  // namespace steelyard
