-- SPDX-License-Identifier: Apache-2.0
-- The right GPU at submission, as a Slurm cli_filter plugin: a job that names its training's config gets the smallest GPU type
-- of the cluster that holds it, and one that fits nowhere is refused with the reason, before it waits in a queue.
--
--     #SBATCH --comment="batchfit: configs/train.yaml"
--
-- Behind the config may stand options of `batchfit fit` that say what the config leaves open (--ranks 4, --seq-len 2048). A job
-- without such a comment, or with GPUs of its own (--gres, --gpus…), is left alone. The config is read as it stands, as the user who
-- submits, and never changed; nothing of it is run.
--
-- slurm.conf:  CliFilterPlugins=lua        this file: cli_filter.lua beside slurm.conf, on the machines where jobs are submitted

-- What your cluster is. `types` says which GPU a GRES type is where its name does not: {["big"] = "a100-80gb", ["old"] = "11GiB"}.
local settings = {
  batchfit = os.getenv("BATCHFIT_FILTER_PROGRAM") or "batchfit", -- a path, if it is not in everybody's PATH
  types = {},
  -- A job that cannot be judged (no readable config, a setting that is not modelled, batchfit or sinfo failed): "closed" refuses
  -- it, "open" lets it through as it is, with a word about why. What fits nowhere is refused by both.
  when_unknown = os.getenv("BATCHFIT_FILTER_UNKNOWN") or "closed",
  seconds = 10, -- for all of it
}

local GPU_OPTIONS = { "gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket" }
local ITS_OWN = { ["--on"] = true, ["--exec"] = true, ["--json"] = true, ["--config"] = true, ["--gres"] = true, ["--save-config"] = true }
local FITS, NO = 0, 1 -- exit statuses of batchfit; others: not judged

local function quoted(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function is_set(options, name)
  local value = options[name]
  return value ~= nil and value ~= "" and value ~= "-2" -- -2: nobody said it
end

-- The words behind "batchfit:", or nil.
local function words_of(comment)
  local rest = comment and comment:match("^%s*batchfit:%s*(.*)$")
  if not rest then return nil end
  local words = {}
  for word in rest:gmatch("%S+") do words[#words + 1] = word end
  return words
end

local function command_of(words, partition)
  local parts = { "timeout", tostring(settings.seconds), quoted(settings.batchfit), "fit", "--on", "slurm", "--test-only", "--json" }
  if partition then
    parts[#parts + 1] = "--partition"
    parts[#parts + 1] = quoted(partition)
  end
  for name, gpu in pairs(settings.types) do
    parts[#parts + 1] = "--gres"
    parts[#parts + 1] = quoted(name .. "=" .. gpu)
  end
  parts[#parts + 1] = "--config"
  for i, word in ipairs(words) do
    if i > 1 and ITS_OWN[word:match("^[^=]*")] then error(word .. ": not in a comment", 0) end
    parts[#parts + 1] = quoted(word)
  end
  return table.concat(parts, " ") .. " 2>&1; s=$?; echo; echo status=$s" -- Lua 5.1's popen tells no status
end

-- Its exit status and what it printed.
local function ask(words, partition)
  local pipe = assert(io.popen(command_of(words, partition)))
  local said = pipe:read("*a")
  pipe:close()
  local status = tonumber(said:match("status=(%d+)%s*$"))
  return status or 127, said
end

-- A filter has no slurm.user_msg; it runs in sbatch, whose standard error is the user's.
local function tell(text)
  for line in text:gmatch("[^\n]+") do io.stderr:write("sbatch: batchfit: ", line, "\n") end
end

-- What people need of an answer that was no: the message with its advice, or the verdict.
local function reason_of(said)
  local headline = said:match('"headline":%s*"(.-[^\\])"')
  local lines = {}
  for line in said:gmatch("[^\n]+") do
    local message = line:match("^batchfit: (.*)") or (#lines > 0 and line:match("^  (%S.*)"))
    if message and not line:match('^%s*["{}%[%]]') then lines[#lines + 1] = message end
  end
  return headline or (#lines > 0 and table.concat(lines, "\n")) or "it printed nothing"
end

local function take(options, said)
  local function value(name) return said:match('"' .. name .. '":%s*"([^"]*)"') end
  options["gres"] = value("gres")
  if not is_set(options, "partition") and value("partition") then options["partition"] = value("partition") end
  local nodes = tonumber(said:match('"nodes_asked":%s*(%d+)'))
  if nodes and nodes > 1 and not is_set(options, "nodes") then options["nodes"] = tostring(nodes) end
  tell(value("headline") or value("gres"))
end

local function unknown(text)
  tell(text)
  if settings.when_unknown == "open" then
    tell("not judged, so it is submitted as it is")
    return slurm.SUCCESS
  end
  return slurm.ERROR
end

local function decide(options)
  local words = words_of(options["comment"])
  if not words then return slurm.SUCCESS end
  for _, name in ipairs(GPU_OPTIONS) do
    if is_set(options, name) then return slurm.SUCCESS end
  end
  if #words == 0 then return unknown("the comment names no config") end
  local status, said = ask(words, is_set(options, "partition") and options["partition"] or nil)
  if status == FITS and said:match('"as_it_stands":%s*true') then
    take(options, said)
    return slurm.SUCCESS
  end
  if status == FITS or status == NO then
    tell(reason_of(said))
    tell("no GPU type of the cluster holds it as it stands; batchfit fit --config " .. words[1] .. " --on slurm says what would, and writes it")
    return slurm.ERROR
  end
  return unknown(reason_of(said))
end

-- An error in a filter lets a job through: so none leaves this one.
function slurm_cli_pre_submit(options, offset)
  local done, result = pcall(decide, options)
  return done and result or unknown(tostring(result))
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
