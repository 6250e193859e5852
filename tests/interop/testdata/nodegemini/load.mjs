// Loads the agents of a folder as Gemini CLI does, and prints them as JSON.
// node load.mjs FOLDER
import { loadAgentsFromDirectory } from "@google/gemini-cli-core/dist/src/agents/agentLoader.js";

const { agents, errors } = await loadAgentsFromDirectory(process.argv[2]);
console.log(JSON.stringify({ agents, errors: errors.map(String) }));
process.exit(0);
