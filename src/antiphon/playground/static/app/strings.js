// Every word of the page, in three languages; {name} is filled in.
const WORDS = {
  chat: ["Chat", "Чат", "对话"],
  prefix: ["Prefix", "Префикс", "前缀"],
  time: ["Time", "Время", "时间"],
  wire: ["Wire", "Протокол", "线路"],
  views: ["Views", "Разделы", "视图"],
  conversations: ["Conversations", "Беседы", "会话"],
  newConversation: ["New conversation", "Новая беседа", "新会话"],
  untitled: ["New conversation", "Новая беседа", "新会话"],
  exportAll: ["Export", "Экспорт", "导出"],
  importAll: ["Import", "Импорт", "导入"],
  delete: ["Delete", "Удалить", "删除"],
  deleteNamed: ["Delete “{name}”", "Удалить «{name}»", "删除“{name}”"],
  settings: ["Settings", "Настройки", "设置"],
  language: ["Language", "Язык", "语言"],
  message: ["Message", "Сообщение", "消息"],
  send: ["Send", "Отправить", "发送"],
  stop: ["Stop", "Остановить", "停止"],
  regenerate: ["Regenerate", "Ещё раз", "重新生成"],
  edit: ["Edit", "Изменить", "编辑"],
  copy: ["Copy", "Копировать", "复制"],
  save: ["Save and send", "Сохранить и отправить", "保存并发送"],
  cancel: ["Cancel", "Отмена", "取消"],
  retry: ["Try again", "Повторить", "重试"],
  you: ["You", "Вы", "您"],
  assistant: ["Assistant", "Ассистент", "助手"],
  previous: ["Previous version", "Предыдущий вариант", "上一版本"],
  next: ["Next version", "Следующий вариант", "下一版本"],
  empty: ["Ask something. The exact request and its events are under “Wire”, the exact prompt under “Envelopes”.", "Спросите что-нибудь. Точный запрос и события — в разделе «Протокол», точный промпт — в «Конвертах».", "请提问。确切的请求和事件在“线路”中，确切的提示在“信封”中。"],
  waiting: ["Waiting for the engine… {time}", "Ожидание движка… {time}", "等待引擎… {time}"],
  thinking: ["Thinking… {time}", "Думает… {time}", "思考中… {time}"],
  thought: ["Thought for {time}, {count} tokens", "Размышление: {time}, {count} токенов", "思考 {time}，{count} 个令牌"],
  reasoning: ["Reasoning", "Размышление", "推理"],
  stopped: ["Stopped after {count} events.", "Остановлено после {count} событий.", "在 {count} 个事件后停止。"],
  cutShort: ["Cut short: {reason}", "Оборвано: {reason}", "已截断：{reason}"],
  interrupted: ["Interrupted: the page was closed while it was written.", "Прервано: страница была закрыта.", "已中断：页面在写入时被关闭。"],
  usage: ["{prompt} prompt ({cached} cached) + {completion} completion tokens", "{prompt} токенов промпта ({cached} из кэша) + {completion} ответа", "{prompt} 提示（{cached} 缓存）+ {completion} 回答令牌"],
  showAll: ["Show all {count} characters", "Показать все {count} символов", "显示全部 {count} 个字符"],
  earlier: ["Show {count} earlier messages", "Показать ещё {count} сообщений", "显示更早的 {count} 条消息"],
  toolCall: ["Tool call", "Вызов инструмента", "工具调用"],
  arguments: ["Arguments", "Аргументы", "参数"],
  notJson: ["not JSON yet", "ещё не JSON", "尚不是 JSON"],
  result: ["Result", "Результат", "结果"],
  giveResult: ["Give the result of {name}", "Введите результат {name}", "给出 {name} 的结果"],
  sendResults: ["Send results", "Отправить результаты", "发送结果"],
  model: ["Model", "Модель", "模型"],
  api: ["API", "API", "API"],
  effort: ["Reasoning effort", "Усилие рассуждения", "推理强度"],
  byDefault: ["default", "по умолчанию", "默认"],
  temperature: ["Temperature", "Температура", "温度"],
  topP: ["Top p", "Top p", "Top p"],
  most: ["Most tokens", "Максимум токенов", "最多令牌"],
  seed: ["Seed", "Зерно", "种子"],
  instructions: ["Instructions", "Инструкции", "指令"],
  tools: ["Functions (JSON list)", "Функции (список JSON)", "函数（JSON 列表）"],
  schema: ["Schema of the answer (JSON Schema)", "Схема ответа (JSON Schema)", "回答的模式（JSON Schema）"],
  badJson: ["This is not JSON of that form: {error}", "Это не JSON нужного вида: {error}", "这不是该形式的 JSON：{error}"],
  debug: ["Debug: show hidden channels", "Отладка: показать скрытые каналы", "调试：显示隐藏频道"],
  debugOn: ["Debug: hidden channels are visible", "Отладка: видны скрытые каналы", "调试：隐藏频道可见"],
  debugConfirm: ["Reasoning is not meant for readers and may be wrong or harmful. It is shown only where the server allows it, and never stored.", "Размышления не предназначены для читателя и могут быть неверны или вредны. Они видны, только если сервер разрешает, и не сохраняются.", "推理并非供读者阅读，可能错误或有害。仅在服务器允许时显示，且绝不存储。"],
  show: ["Show", "Показать", "显示"],
  keyTitle: ["This server needs an API key", "Серверу нужен API-ключ", "此服务器需要 API 密钥"],
  keyNote: ["It stays in this tab's memory and is sent to this server only.", "Он остаётся в памяти этой вкладки и отправляется только этому серверу.", "它只保存在此标签页的内存中，仅发送到此服务器。"],
  keyWrong: ["That key is not known here.", "Такой ключ здесь неизвестен.", "此处不认识该密钥。"],
  keyLabel: ["API key", "API-ключ", "API 密钥"],
  use: ["Use", "Использовать", "使用"],
  loading: ["The model is loading. This page goes on when it is there.", "Модель загружается. Страница продолжит, когда она будет готова.", "模型正在加载，就绪后页面将继续。"],
  offline: ["The server does not answer. Is it running? This page tries again by itself.", "Сервер не отвечает. Запущен ли он? Страница повторит попытку сама.", "服务器没有响应。它在运行吗？页面会自动重试。"],
  lost: ["The engine was lost and is started again. Try again in a moment.", "Движок потерян и перезапускается. Повторите через мгновение.", "引擎丢失，正在重新启动。请稍后再试。"],
  busy: ["The server is busy: {message}", "Сервер занят: {message}", "服务器繁忙：{message}"],
  cut: ["The connection broke before the answer was whole.", "Связь прервалась до конца ответа.", "连接在回答完成前中断。"],
  rate: ["Too many requests: {message}", "Слишком много запросов: {message}", "请求过多：{message}"],
  countdown: ["Again in {count} s", "Повтор через {count} с", "{count} 秒后重试"],
  refused: ["{message}", "{message}", "{message}"],
  requestId: ["Request {id}", "Запрос {id}", "请求 {id}"],
  close: ["Close", "Закрыть", "关闭"],
  request: ["Request", "Запрос", "请求"],
  requests: ["Requests", "Запросы", "请求列表"],
  answer: ["Answer", "Ответ", "回答"],
  events: ["Events", "События", "事件"],
  filter: ["Filter", "Фильтр", "筛选"],
  noRequests: ["No requests yet.", "Запросов ещё нет.", "尚无请求。"],
  copyAs: ["Copy as {name}", "Копировать как {name}", "复制为 {name}"],
  skip: ["Skip to content", "К содержанию", "跳到内容"],
  imported: ["{count} conversations imported.", "Импортировано бесед: {count}.", "已导入 {count} 个会话。"],
  notImported: ["That file has no conversations.", "В файле нет бесед.", "该文件没有会话。"],
};
export const LANGUAGES = { en: "English", ru: "Русский", zh: "中文" };
const PLACES = Object.keys(LANGUAGES);

let language = pick();
function pick() {
  const chosen = localStorage.getItem("language") ?? navigator.language.slice(0, 2);
  return PLACES.includes(chosen) ? chosen : "en";
}

export const current = () => language;
export function choose(name) {
  language = name;
  localStorage.setItem("language", name);
  document.documentElement.lang = name;
}

export function t(word, fields = {}) {
  const text = WORDS[word][PLACES.indexOf(language)];
  return text.replace(/\{(\w+)\}/g, (_, name) => String(fields[name] ?? ""));
}
