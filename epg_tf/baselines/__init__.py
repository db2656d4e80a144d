"""What learned losses are compared with, and the base of all methods that train agents.

| modules | method | beside |
|---|---|---|
| `policy_gradient` | PPO, REINFORCE in EPG's inner loop | losses of EPG, objectives |
| `off_policy`, `parallel_agents` | SAC, TD3, DDPG of TF-Agents | losses of EPG, objectives |
| `maml`, `maml_*`, `linear_baseline` | MAML | losses of EPG |
| `rl2`, `recurrent_ppo`, `played_trials`, `rl2_lives` | RL², E-RL² | losses of EPG |
| `method` | `Method`, requests and curves | both |
| `inner_loop_method`, `lived_shards` | what several methods share | both |
| `kept_shards` | files of shards, for tests that are stopped | both |
"""
