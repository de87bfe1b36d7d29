#include "cli/slurm_plugin.h"

namespace steelyard {

std::string slurm_plugin() {
  return R"lua(-- job_submit.lua: asks `steelyard gate` about every job script. Written by `steelyard gate --slurm-plugin`.
-- slurm.conf: JobSubmitPlugins=lua, and this file beside it. A job that is not understood is let through;
-- only exit status 1 refuses. A user overrides with --comment=steelyard:skip.
local STEELYARD = os.getenv("STEELYARD") or "steelyard"
local POLICY = os.getenv("STEELYARD_POLICY") or "/etc/slurm/steelyard.toml"
local SECONDS = 2

local function exists(path)
  local file = io.open(path, "r")
  if file then file:close() end
  return file ~= nil
end

local function gate(script)
  local path = os.tmpname()
  local file = io.open(path, "w")
  if not file then return 2, "" end
  file:write(script)
  file:close()
  local command = "timeout " .. SECONDS .. " " .. STEELYARD .. " gate - --ascii"
  if exists(POLICY) then command = command .. " --policy " .. POLICY end
  local pipe = io.popen(command .. " < " .. path .. " 2>/dev/null; echo status $?")
  local answer = pipe and pipe:read("*a") or ""
  if pipe then pipe:close() end
  os.remove(path)
  local line = answer:match("^[^\n]*") or ""
  return tonumber(answer:match("status (%d+)%s*$") or "2"), line
end

function slurm_job_submit(job, partitions, uid)
  if job.script == nil then return slurm.SUCCESS end
  if job.comment and job.comment:find("steelyard:skip", 1, true) then return slurm.SUCCESS end
  local status, line = gate(job.script)
  if status == 1 then
    for part in line:gmatch("[^;]+") do slurm.log_user("steelyard: %s", (part:gsub("^%s+", ""))) end
    slurm.log_user("override: --comment=steelyard:skip")
    return slurm.ERROR
  end
  if status == 0 and not job.comment then job.comment = "steelyard: " .. line end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
return slurm.SUCCESS
)lua";
}

}  // namespace steelyard
