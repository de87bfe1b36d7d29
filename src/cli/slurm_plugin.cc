#include "cli/slurm_plugin.h"

namespace steelyard {

std::string slurm_plugin() {
  return R"lua(-- job_submit.lua: asks `steelyard gate` about every job script. Written by `steelyard gate --slurm-plugin`.
-- slurm.conf: JobSubmitPlugins=lua, and this file beside it. A user overrides with --comment=steelyard:skip.
-- Exit status 1 refuses. A job that could not be weighed (not understood, a crash, too slow, steelyard not found) is let
-- through, unless the policy says not_weighed = "refuse".
local STEELYARD = os.getenv("STEELYARD") or "steelyard"
local POLICY = os.getenv("STEELYARD_POLICY") or "/etc/slurm/steelyard.toml"
local SECONDS = 2

-- The text of the policy, or nothing where there is none.
local function policy_text()
  local file = io.open(POLICY, "r")
  if not file then return nil end
  local text = file:read("*a") or ""
  file:close()
  return text
end

-- Read here, too: what decides when steelyard itself fails cannot be asked of it.
local function fails_closed(policy)
  for line in ((policy or "") .. "\n"):gmatch("([^\n]*)\n") do
    local word = line:match("^%s*\"?not_weighed\"?%s*=%s*[\"'](%a+)[\"']")
    if word then return word == "refuse" end
  end
  return false
end

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

-- A number that was said: Slurm has two that stand for none.
local function said(number)
  if number == nil or number == 0 or number >= 65534 then return nil end
  return number
end

-- The GPUs of "gres/gpu:h100:8" or "gres:gpu:8", as an option says them.
local function gpus_of(tres)
  return tres and (("," .. tres):match(",gres[:/]gpu[:=]([%w_:%-]+)"))
end

-- What sbatch was given beside the script wins over it: the job's own words, as its last directives.
local function with_options(job, partitions)
  local options = {}
  local function add(name, value)
    if value then options[#options + 1] = "#SBATCH --" .. name .. "=" .. value .. "\n" end
  end
  local least, most = said(job.min_nodes), said(job.max_nodes)
  add("nodes", least and (most and most > least and (least .. "-" .. most) or least))
  add("ntasks-per-node", said(job.ntasks_per_node))
  add("ntasks", said(job.num_tasks))
  add("gpus-per-node", gpus_of(job.tres_per_node))
  add("gpus-per-task", gpus_of(job.tres_per_task))
  add("gpus", gpus_of(job.tres_per_job))
  local partition = job.partition
  for name, one in pairs(partitions or {}) do
    if not partition and one.flag_default == 1 then partition = name end
  end
  if partition and not partition:find("[^%w_%-%.]") then add("partition", partition) end
  local head, at = "", 1
  while true do
    local line, after = job.script:match("^([^\n]*\n)()", at)
    if not line or not line:match("^%s*#") and line:match("%S") then break end
    head, at = head .. line, after
  end
  return head .. table.concat(options) .. job.script:sub(at)
end

-- The exit status of the gate and its line; nothing where it did not end by itself.
local function gate(script, folder, policy)
  local path = os.tmpname()
  local file = io.open(path, "w")
  if not file then return nil, "no temporary file" end
  file:write(script)
  file:close()
  local command = "timeout " .. SECONDS .. " " .. quoted(STEELYARD) .. " gate - --ascii"
  if policy then command = command .. " --policy " .. quoted(POLICY) end
  -- Files that the script names lie where it was submitted, if this user may look there.
  if folder then command = "cd " .. quoted(folder) .. " 2>/dev/null; " .. command end
  local pipe = io.popen(command .. " < " .. quoted(path) .. " 2>/dev/null; echo status $?")
  local answer = pipe and pipe:read("*a") or ""
  if pipe then pipe:close() end
  os.remove(path)
  local status = tonumber(answer:match("status (%d+)%s*$") or "")
  if status == 0 or status == 1 then return status, answer:match("^[^\n]*") or "" end
  if status == 124 then return nil, "no answer within " .. SECONDS .. " s" end
  return nil, "exit status " .. (status or "unknown")
end

function slurm_job_submit(job, partitions, uid)
  if job.script == nil then return slurm.SUCCESS end
  if job.comment and job.comment:find("steelyard:skip", 1, true) then return slurm.SUCCESS end
  local policy = policy_text()
  local status, line = gate(with_options(job, partitions), job.work_dir, policy)
  if status == nil then
    local closed = fails_closed(policy)
    local verdict = closed and "refused" or "accepted"
    line = verdict .. ": not weighed (not_weighed = \"" .. (closed and "refuse" or "accept") .. "\"): " .. line
    slurm.log_info("steelyard: %s", line)
    status = closed and 1 or 0
  end
  if status == 1 then
    for part in line:gmatch("[^;]+") do slurm.log_user("steelyard: %s", (part:gsub("^%s+", ""))) end
    slurm.log_user("override: --comment=steelyard:skip")
    return slurm.ERROR
  end
  if not job.comment then job.comment = "steelyard: " .. line end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
return slurm.SUCCESS
)lua";
}

}  // namespace steelyard
